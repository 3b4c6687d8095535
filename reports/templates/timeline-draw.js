// Draws the time line's lanes, phases and bands. Knows the data and a canvas, not
// the page's controls.
var timelineDraw = (function () {
  'use strict';
  var D = timelineData;
  var outcomes = ['ok', 'fail', 'unknown'];
  var font = '"Liberation Sans",Arial,Helvetica,sans-serif';

  // theme reads the page's colours, which follow the reader's light or dark.
  function theme(raw) {
    var color = curves.color;
    var t = { worker: raw.workers.map(function (w) { return color(w.color); }), fault: raw.faults.map(function (f) { return color(f.color); }) };
    ['page', 'card', 'sunken', 'ink', 'muted', 'line', 'grid', 'link', 'ok', 'fail', 'unknown', 'tail', 'entitled'].forEach(function (n) { t[n] = color(n); });
    t.pattern = {};
    outcomes.forEach(function (o) { t.pattern[o] = texture(o, t[o], t.card); });
    return t;
  }

  // Outcomes differ by texture too: fail is hatched, unknown dotted, as in the other drawings.
  function texture(outcome, color, over) {
    if (outcome === 'ok') { return color; }
    var c = document.createElement('canvas');
    c.width = c.height = 6;
    var g = c.getContext('2d');
    g.fillStyle = color;
    g.fillRect(0, 0, 6, 6);
    g.fillStyle = g.strokeStyle = over;
    if (outcome === 'fail') {
      g.lineWidth = 1.2;
      [-6, 0, 6].forEach(function (x) {
        g.beginPath();
        g.moveTo(x, 6);
        g.lineTo(x + 6, 0);
        g.stroke();
      });
    } else {
      g.beginPath();
      g.arc(3, 3, 1.1, 0, 7);
      g.fill();
    }
    return g.createPattern(c, 'repeat');
  }

  function alpha(hex, a) {
    var v = parseInt(hex.slice(1), 16);
    return 'rgba(' + (v >> 16 & 255) + ',' + (v >> 8 & 255) + ',' + (v & 255) + ',' + a + ')';
  }

  function mix(hex, over, a) {
    var x = parseInt(hex.slice(1), 16), y = parseInt(over.slice(1), 16), out = [];
    [16, 8, 0].forEach(function (s) { out.push(Math.round((x >> s & 255) * a + (y >> s & 255) * (1 - a))); });
    return 'rgb(' + out.join(',') + ')';
  }

  // fit gives a canvas its size in the screen's own pixels and returns a context in CSS pixels.
  function fit(canvas, w, h) {
    var r = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(w * r) || canvas.height !== Math.round(h * r)) {
      canvas.width = Math.round(w * r);
      canvas.height = Math.round(h * r);
      canvas.style.width = w + 'px';
      canvas.style.height = h + 'px';
    }
    var g = canvas.getContext('2d');
    g.setTransform(r, 0, 0, r, 0, 0);
    g.clearRect(0, 0, w, h);
    g.textBaseline = 'middle';
    return g;
  }

  // scale maps µs to pixels. v: from, to, x0, x1.
  function scale(v) {
    var k = (v.x1 - v.x0) / (v.to - v.from);
    return function (t) { return v.x0 + (t - v.from) * k; };
  }

  function clip(g, s, room) {
    if (g.measureText(s).width <= room) { return s; }
    for (var n = s.length - 1; n > 3; n--) {
      var half = Math.ceil(n / 2), short = s.slice(0, half) + '…' + s.slice(s.length - (n - half));
      if (g.measureText(short).width <= room) { return short; }
    }
    return '';
  }

  // bands are the faults in force, the phases' boundaries and the chosen violation's window.
  function bands(g, m, v, t, y0, y1) {
    var x = scale(v);
    g.save();
    g.beginPath();
    g.rect(v.x0, y0, v.x1 - v.x0, y1 - y0);
    g.clip();
    m.raw.faults.forEach(function (f, i) {
      g.fillStyle = alpha(t.fault[i], 0.13);
      g.fillRect(x(f.from), y0, Math.max(x(f.to) - x(f.from), 2), y1 - y0);
    });
    g.strokeStyle = alpha(t.muted, 0.55);
    g.lineWidth = 1;
    g.setLineDash([2, 3]);
    m.raw.phases.forEach(function (p) {
      g.beginPath();
      g.moveTo(Math.round(x(p.from)) + 0.5, y0);
      g.lineTo(Math.round(x(p.from)) + 0.5, y1);
      g.stroke();
    });
    if (v.violation >= 0) {
      var f = m.raw.violations[v.violation];
      var a = x(f.from), b = Math.max(x(f.to), a + 2);
      g.fillStyle = alpha(t.fail, 0.08);
      g.fillRect(a, y0, b - a, y1 - y0);
      g.setLineDash([4, 3]);
      g.strokeStyle = t.fail;
      [a, b].forEach(function (at) {
        g.beginPath();
        g.moveTo(at, y0);
        g.lineTo(at, y1);
        g.stroke();
      });
    }
    g.restore();
  }

  // strip draws the phases and a row of the faults' names.
  function strip(canvas, m, v, t, w) {
    var rows = faultRows(m), h = 20 + rows.length * 17 + 3, g = fit(canvas, w, h), x = scale(v);
    bands(g, m, v, t, 20, h);
    g.font = '600 11px ' + font;
    m.raw.phases.forEach(function (p, i) {
      var a = Math.max(x(p.from), v.x0), b = Math.min(x(p.to), v.x1);
      if (b - a < 1) { return; }
      g.fillStyle = p.name === 'fault' ? t.line : t.sunken;
      g.fillRect(a, 0, b - a, 18);
      g.fillStyle = t.line;
      g.fillRect(a, 0, 1, 18);
      var label = clip(g, p.name, b - a - 8);
      g.fillStyle = t.ink;
      g.textAlign = 'center';
      if (label) { g.fillText(label, (a + b) / 2, 9.5); }
    });
    g.textAlign = 'left';
    g.font = '11px ' + font;
    rows.forEach(function (row, r) {
      row.forEach(function (i) {
        var f = m.raw.faults[i], a = Math.max(x(f.from), v.x0), b = Math.min(Math.max(x(f.to), x(f.from) + 2), v.x1), y = 21 + r * 17;
        if (b <= v.x0 || a >= v.x1) { return; }
        g.fillStyle = mix(t.fault[i], t.card, 0.3);
        g.fillRect(a, y, b - a, 15);
        g.fillStyle = t.fault[i];
        g.fillRect(a, y, b - a, 2);
        g.fillStyle = t.ink;
        var label = clip(g, f.id + ' ' + f.name, b - a - 10) || clip(g, f.id, b - a - 4);
        if (label) { g.fillText(label, a + 5, y + 8.5); }
      });
    });
    g.fillStyle = t.muted;
    g.textAlign = 'right';
    g.fillText('phase', v.x0 - 8, 9.5);
    if (rows.length) { g.fillText('fault', v.x0 - 8, 29.5); }
    return h;
  }

  // faultRows puts faults that overlap into different rows, at most three.
  function faultRows(m) {
    var rows = [];
    m.raw.faults.forEach(function (f, i) {
      var r = 0;
      while (r < rows.length && r < 2 && m.raw.faults[rows[r][rows[r].length - 1]].to > f.from) { r++; }
      (rows[r] = rows[r] || []).push(i);
    });
    return rows;
  }

  // layout gives the lanes their places: y, and the height of a row of operations.
  function layout(lanes, room) {
    var rows = 0;
    lanes.forEach(function (l) { rows += Math.max(l.rows.length, 1); });
    var fixed = lanes.length * 30;
    var h = fixed + rows * 14 <= room ? 14 : fixed + rows * 9 <= room ? 9 : 6;
    var y = 4;
    lanes.forEach(function (l) {
      l.y = y;
      l.holdH = l.holds.length ? 17 : 0;
      l.rowH = h;
      l.h = Math.max(l.holdH + l.rows.length * h + 3, 20);
      y += l.h + 7;
    });
    return y;
  }

  // draw draws the lanes in sight. v: from, to, x0, x1, w, h, top (scrolled), lanes,
  // violation, numbers (of its events, by operation), op (chosen, -1), hold.
  function draw(canvas, m, v, t) {
    var g = fit(canvas, v.w, v.h), x = scale(v);
    v.lanes.forEach(function (l, i) {
      var y = l.y - v.top;
      if (y > v.h || y + l.h < 0) { return; }
      g.fillStyle = t.sunken;
      g.fillRect(v.x0, y, v.x1 - v.x0, l.h);
    });
    bands(g, m, v, t, 0, v.h);
    v.lanes.forEach(function (l) {
      var y = l.y - v.top;
      if (y > v.h || y + l.h < 0) { return; }
      g.font = '12px ' + font;
      g.fillStyle = t.ink;
      g.textAlign = 'right';
      g.fillText(clip(g, l.name, v.x0 - 14), v.x0 - 8, y + (l.holdH ? 9 : l.h / 2));
      g.save();
      g.beginPath();
      g.rect(v.x0, y, v.x1 - v.x0, l.h);
      g.clip();
      holds(g, m, v, t, l, y, x);
      l.rows.forEach(function (row, r) { bars(g, m, v, t, row, y + l.holdH + 2 + r * l.rowH, l.rowH - (l.rowH > 8 ? 2 : 1), x); });
      g.restore();
    });
    marks(g, m, v, t, x);
    if (v.violation >= 0) { badges(g, m, v, t, x); }
    return g;
  }

  function holds(g, m, v, t, l, y, x) {
    var h = m.holds, procs = m.raw.procs, last = -1e9;
    g.textAlign = 'left';
    g.font = '11px ' + font;
    for (var k = 0; k < l.holds.length; k++) {
      var i = l.holds[k], a = x(h.from[i]), b = x(h.to[i]), end = x(h.row[i]);
      if (a > v.x1) { break; }
      if (Math.max(b, end) < v.x0) { continue; }
      // Holdings that share a pixel are drawn once.
      if (b - a < 1 && a < last + 1 && !(h.flags[i] & 1)) { continue; }
      last = Math.max(b, a + 1);
      if (end - b > 1.5 && m.raw.ended_by[h.ended[i]] !== 'release') { // the row is not yet free
        g.strokeStyle = t.muted;
        g.setLineDash([3, 2]);
        g.strokeRect(b, y + 5.5, end - b, 6);
        g.setLineDash([]);
      }
      g.fillStyle = t.worker[procs[h.proc[i]].worker];
      g.fillRect(a, y + 1, Math.max(b - a, 1), 15);
      if (b - a > 4) {
        g.fillStyle = alpha(t.ink, 0.35);
        g.fillRect(a, y + 1, 1, 15);
      }
      if (h.flags[i] & 1) {
        g.fillStyle = t.ink;
        g.beginPath();
        g.moveTo(a, y);
        g.lineTo(a + 7, y);
        g.lineTo(a, y + 8);
        g.fill();
      }
      if (b - a > 26) {
        var from = Math.max(a, v.x0) + (h.flags[i] & 1 ? 10 : 5);
        var what = v.by === 'row' ? procs[h.proc[i]].name : m.raw.lanes[h.lane[i]];
        var label = clip(g, what + ' · ' + D.token(h.token[i]), Math.min(b, v.x1) - from - 3) || clip(g, D.token(h.token[i]), Math.min(b, v.x1) - from - 3);
        g.fillStyle = t.ink;
        if (label) { g.fillText(label, from, y + 9); }
      }
    }
  }

  function bars(g, m, v, t, row, y, h, x) {
    var o = m.ops, px = -1, worst = -1, dim = v.violation >= 0 ? 0.3 : 1;
    g.font = '10px ' + font;
    g.textAlign = 'left';
    var flush = function () {
      if (worst < 0) { return; }
      g.globalAlpha = dim;
      g.fillStyle = t[outcomes[worst]];
      g.fillRect(px, y, 1, h);
      worst = -1;
    };
    for (var k = D.first(row.until, v.from); k < row.ops.length; k++) {
      var i = row.ops[k];
      if (o.at[i] > v.to) { break; }
      var a = x(o.at[i]), b = x(o.end[i]), out = o.outcome[i];
      if (b - a < 1.5 && !(v.numbers && v.numbers[i])) { // what shares a pixel shows its worst
        var p = Math.floor(a);
        if (p !== px) { flush(); }
        px = p;
        worst = Math.max(worst, out);
        continue;
      }
      flush();
      var named = v.numbers && v.numbers[i];
      g.globalAlpha = named || i === v.op ? 1 : dim;
      var left = Math.max(a, v.x0 - 4), right = Math.min(b, v.x1 + 4), w = Math.max(right - left, named ? 3 : 1);
      if (w >= 6) {
        g.fillStyle = t.pattern[outcomes[out]];
        g.fillRect(left, y, w, h);
        if (h >= 11 && w > 34) { label(g, m, t, i, left, y, w, h); }
      } else {
        g.fillStyle = t[outcomes[out]];
        g.fillRect(left, y, w, h);
      }
      if (a > v.x0 && w > 3) {
        g.fillStyle = alpha(t.card, 0.8);
        g.fillRect(a, y, 0.7, h);
      }
      if (named || i === v.op) {
        g.strokeStyle = t.ink;
        g.lineWidth = i === v.op ? 2 : 1.4;
        g.strokeRect(left - 1, y - 0.5, w + 2, h + 1);
        g.lineWidth = 1;
      }
    }
    flush();
    g.globalAlpha = 1;
  }

  // label writes what an operation is into its bar.
  function label(g, m, t, i, left, y, w, h) {
    var o = m.ops, s = m.raw.kinds[o.kind[i]].name + (o.token[i] ? ' ' + D.token(o.token[i]) : '');
    s = clip(g, s, w - 8);
    if (!s) { return; }
    if (o.outcome[i] !== 0) { // a texture is no ground for text
      g.fillStyle = t[outcomes[o.outcome[i]]];
      g.fillRect(left + 2, y, g.measureText(s).width + 4, h);
    }
    g.fillStyle = t.card;
    g.fillText(s, left + 4, y + h / 2 + 0.5);
  }

  // marks are the ends of processes and the losses of leases.
  function marks(g, m, v, t, x) {
    m.raw.marks.forEach(function (k) {
      if (k.at < v.from || k.at > v.to) { return; }
      v.lanes.forEach(function (l) {
        var mine = v.by === 'row' ? k.lanes[l.id] : k.proc === l.name || D.life(k.proc) === D.life(l.name) && (k.lane < 0 || l.name.indexOf('/') < 0);
        var y = l.y - v.top;
        if (!mine || y > v.h || y + l.h < 0) { return; }
        var at = x(k.at);
        g.strokeStyle = g.fillStyle = k.name === 'lease-lost' ? t.unknown : k.name === 'crash' ? t.fail : t.muted;
        g.lineWidth = 1.5;
        g.beginPath();
        g.moveTo(at, y);
        g.lineTo(at, y + l.h);
        g.stroke();
        g.beginPath();
        g.moveTo(at - 5, y);
        g.lineTo(at + 5, y);
        g.lineTo(at, y + 7);
        g.fill();
        g.lineWidth = 1;
      });
    });
  }

  // badges number the events of the chosen violation, as its table does.
  function badges(g, m, v, t, x) {
    var o = m.ops, seen = {};
    g.font = '700 10px ' + font;
    g.textAlign = 'center';
    v.lanes.forEach(function (l) {
      l.rows.forEach(function (row, r) {
        var y = l.y - v.top + l.holdH + 2 + r * l.rowH + (l.rowH - 2) / 2;
        if (y < -10 || y > v.h + 10) { return; }
        for (var k = D.first(row.until, v.from - 1); k < row.ops.length && o.at[row.ops[k]] <= v.to; k++) {
          (v.numbers[row.ops[k]] || []).forEach(function (e) {
            var half = 5 + 3 * String(e.n).length, i = row.ops[k], key;
            // Beside the bar: before its begin, after its end.
            var at = Math.round(x(Math.min(Math.max(e.at, v.from), v.to))) + (e.at <= o.at[i] ? -half - 1 : half + 1);
            do { key = Math.round(at / 14) + ':' + Math.round(y); at += seen[key] ? 15 : 0; } while (seen[key]);
            seen[key] = 1;
            at = Math.min(Math.max(at, v.x0 + half), v.x1 - half);
            g.fillStyle = t.ink;
            g.beginPath();
            g.roundRect(at - half, y - 7, 2 * half, 14, 7);
            g.fill();
            g.fillStyle = t.card;
            g.fillText('#' + e.n, at, y + 0.5);
          });
        }
      });
    });
  }

  return { theme: theme, fit: fit, scale: scale, bands: bands, strip: strip, layout: layout, draw: draw, alpha: alpha, mix: mix, font: font, outcomes: outcomes };
})();
