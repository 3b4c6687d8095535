// Draws the charts of lines, by uPlot: each figure of the class "curves" has its numbers
// as JSON in it (package chart, type Curves). The time line takes its axes from here.
var curves = (function () {
  'use strict';
  var font = '"Liberation Sans",Arial,Helvetica,sans-serif';
  var palette = [['ok'], ['tail', 6, 3], ['unknown', 2, 2], ['good', 8, 2, 2, 2], ['fail', 4, 2], ['entitled', 1, 2]];

  // color is one of the page's, which follow the reader's light or dark.
  function color(name) { return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim() || '#888'; }

  function axis(more) {
    return Object.assign({ stroke: color('muted'), font: '11px ' + font, grid: { stroke: color('grid'), width: 1 }, ticks: { stroke: color('line'), width: 1, size: 4 }, gap: 4 }, more);
  }

  function seconds(u, splits) {
    var by = splits.length > 1 ? splits[1] - splits[0] : 1;
    var digits = Math.max(0, -Math.floor(Math.log10(by) + 1e-9));
    return splits.map(function (s) { return s.toFixed(digits) + ' s'; });
  }

  function short(v) {
    return v >= 1 ? +v.toPrecision(3) + ' s' : v >= 0.001 ? +(v * 1000).toPrecision(2) + ' ms' : +(v * 1e6).toPrecision(2) + ' µs';
  }

  // durations is a logarithmic axis of seconds.
  function durations(more) {
    return axis(Object.assign({
      splits: function (u, i, lo, hi) {
        var out = [], few = hi / lo > 200;
        for (var p = Math.pow(10, Math.floor(Math.log10(lo))); p <= hi * 1.0001; p *= 10) {
          (few ? [1] : [1, 2, 5]).forEach(function (k) { if (k * p >= lo * 0.9999 && k * p <= hi * 1.0001) { out.push(k * p); } });
        }
        return out;
      }, filter: function (u, s) { return s; }, values: function (u, s) { return s.map(short); }
    }, more));
  }

  function percentile(x) { return +(100 - 100 * Math.pow(10, -x)).toPrecision(7); }
  // What curves run over: its axis, and how the legend calls a place on it.
  var over = {
    time: { axis: { values: seconds }, name: 'at', say: function (v) { return v.toFixed(2) + ' s'; } },
    percentile: {
      axis: {
        splits: function () { return [0, 50, 90, 95, 99, 99.9, 99.99, 99.999].map(function (p) { return -Math.log10(1 - p / 100); }); },
        values: function (u, s) { return s.map(function (x) { return percentile(x) + ' %'; }); }
      }, name: 'percentile', say: function (v) { return percentile(v).toFixed(2); }
    },
    round: { axis: { incrs: [1, 2, 5, 10, 20, 50] }, name: 'round', say: String },
    clients: { axis: { splits: function (u) { return u.data[0]; } }, name: 'clients', say: String }
  };

  // results are what a chart over them has: their names stand for their numbers.
  function results(c) {
    return {
      axis: { incrs: [1, 2, 5, 10, 20, 50, 100], size: 40, values: function (u, s) { return s.map(function (i) { return c.names[i] || ''; }); } },
      name: '', say: function (i) { return (c.names[i] || '').replace('\n', ' '); }
    };
  }

  // under draws bands: faults in force, and dotted lines between phases.
  function under(u, c) {
    var g = u.ctx, x = function (v) { return u.valToPos(v, 'x', true); }, b = u.bbox, r = devicePixelRatio;
    var few = c.bands.filter(function (p) { return p.color; }).length <= 12;
    g.save();
    g.font = 10 * r + 'px ' + font;
    g.beginPath();
    g.rect(b.left, b.top, b.width, b.height);
    g.clip();
    c.bands.forEach(function (p) {
      if (p.color) {
        g.globalAlpha = 0.13;
        g.fillStyle = color(p.color);
        g.fillRect(x(p.from), b.top, Math.max(x(p.to) - x(p.from), 2), b.height);
        g.globalAlpha = 1;
        g.fillRect(x(p.from), b.top, Math.max(x(p.to) - x(p.from), 2), 2.5 * r);
        if (few) {
          g.fillStyle = color('muted');
          g.fillText(p.name.split(' ')[0], x(p.from) + 3 * r, b.top + 11 * r);
        }
      } else if (p.from > c.from) {
        g.globalAlpha = 0.55;
        g.strokeStyle = color('muted');
        g.lineWidth = r;
        g.setLineDash([2 * r, 3 * r]);
        g.beginPath();
        g.moveTo(x(p.from), b.top);
        g.lineTo(x(p.from), b.top + b.height);
        g.stroke();
      }
    });
    g.restore();
  }

  // marks draws single points over the lines: dots, crosses, and bars from least to greatest.
  function marks(u, c) {
    var g = u.ctx, r = devicePixelRatio, at = function (p) { return [u.valToPos(p[0], 'x', true), u.valToPos(p[1], 'y', true)]; };
    g.save();
    g.fillStyle = color('tail');
    g.globalAlpha = 0.6;
    (c.dots || []).map(at).forEach(function (p) {
      g.beginPath();
      g.arc(p[0], p[1], 1.9 * r, 0, 7);
      g.fill();
    });
    g.globalAlpha = 1;
    g.lineWidth = 1.8 * r;
    var stroke = function (p, q) {
      g.beginPath();
      g.moveTo(p[0], p[1]);
      g.lineTo(q[0], q[1]);
      g.stroke();
    };
    g.strokeStyle = color('unknown');
    (c.crosses || []).map(at).forEach(function (p) {
      var d = 3.2 * r;
      stroke([p[0] - d, p[1] - d], [p[0] + d, p[1] + d]);
      stroke([p[0] - d, p[1] + d], [p[0] + d, p[1] - d]);
    });
    g.lineWidth = r;
    c.lines.forEach(function (l, i) {
      g.strokeStyle = u.series[i + 1].stroke();
      (l.bars || []).forEach(function (b, k) { stroke(at([l.x[k], b[0]]), at([l.x[k], b[1]])); });
    });
    g.restore();
  }

  // alone are the points that no line leads to.
  function alone(u, i) {
    var d = u.data[i], out = [];
    for (var k = 0; k < d.length; k++) { if (d[k] != null && d[k - 1] == null && d[k + 1] == null) { out.push(k); } }
    return out;
  }

  function series(c, l, i) {
    var st = l.color ? [l.color].concat(l.dash || []) : palette[i % palette.length], stroke = color(st[0]);
    return {
      label: l.label, stroke: stroke, width: 1.8, dash: st.slice(1), fill: l.fill ? stroke + '24' : undefined,
      points: l.bars ? { show: true, size: 7, fill: stroke } : { show: true, size: 4, fill: stroke, filter: alone },
      value: function (u, v) { return v == null ? '' : c.durations ? short(v) : v >= 100 ? Math.round(v) : +v.toPrecision(3); }
    };
  }

  function draw(figure) {
    var c = JSON.parse(figure.querySelector('script').textContent), o = c.names ? results(c) : over[c.over];
    c.bands = c.bands || [];
    figure.classList.add('drawn');
    figure.querySelectorAll('.uplot').forEach(function (old) { old.remove(); });
    var pad = c.over === 'clients' || c.over === 'round' ? (c.to - c.from) * 0.04 : c.names ? 0.5 : 0;
    var where = function (u, v) {
      if (v == null) { return ''; }
      return o.name + ' ' + [o.say(v)].concat(c.bands.filter(function (b) { return v >= b.from && v < b.to; }).map(function (b) { return b.name; })).join(' · ');
    };
    var u = new uPlot({
      title: c.title, width: figure.clientWidth, height: c.height, padding: [10, 16, 0, 0],
      legend: { markers: { width: 2, dash: function (u, i) { return u.series[i].dash && u.series[i].dash.length ? 'dashed' : 'solid'; } } },
      cursor: { y: false, drag: { x: false, y: false }, sync: c.bands.length ? { key: 'run' } : undefined },
      scales: {
        x: { time: false, range: [c.from - pad, c.to + pad] },
        y: c.durations ? { distr: 3, range: [c.low, c.high] } : { range: function (u, lo, hi) { return [0, Math.max(c.high || 0, (hi || 1) * 1.06)]; } }
      },
      axes: [axis(Object.assign({ size: 28, space: 70, grid: { show: false } }, o.axis)), c.durations ? durations({ size: 66 }) : axis({ size: 66, space: 34 })],
      series: [{ label: '\u00a0', value: where }].concat(c.lines.map(function (l, i) { return series(c, l, i); })),
      hooks: { drawClear: [function (u) { under(u, c); }], draw: [function (u) { marks(u, c); }] }
    }, uPlot.join(c.lines.map(function (l) { return [l.x, c.durations ? l.y.map(function (v) { return v > 0 ? v : null; }) : l.y]; })), figure);
    figure.onkeydown = function (e) {
      if (e.key !== 'ArrowLeft' && e.key !== 'ArrowRight') { return; }
      e.preventDefault();
      var i = u.cursor.idx, by = (e.key === 'ArrowLeft' ? -1 : 1) * (e.shiftKey ? 10 : 1), n = u.data[0].length;
      u.setCursor({ left: u.valToPos(u.data[0][i == null ? 0 : Math.min(Math.max(i + by, 0), n - 1)], 'x'), top: 1 }, true, true);
    };
    return u;
  }

  // Figures that are folded or not yet laid out have no width: they wait for one.
  var figures = [].slice.call(document.querySelectorAll('figure.curves'));
  var watch = new ResizeObserver(function (all) {
    all.forEach(function (e) { if (e.contentRect.width && e.target.dataset.width !== String(e.contentRect.width)) { e.target.dataset.width = e.contentRect.width; draw(e.target); } });
  });
  figures.forEach(function (f) {
    f.classList.add('drawn');
    watch.observe(f);
  });
  matchMedia('(prefers-color-scheme:dark)').addEventListener('change', function () { figures.forEach(draw); });

  return { axis: axis, durations: durations, seconds: seconds, color: color };
})();
