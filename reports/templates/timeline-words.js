// The time line in words: what stands beside the pointer and in the pane below.
var timelineWords = (function () {
  'use strict';
  var D = timelineData;

  function el(tag, attrs, children) {
    var e = document.createElement(tag);
    Object.keys(attrs || {}).forEach(function (k) {
      if (k === 'class') { e.className = attrs[k]; } else { e.setAttribute(k, attrs[k]); }
    });
    (children || []).forEach(function (c) { e.append(c); });
    return e;
  }

  // clock writes an instant of the run, as exactly as the stretch in sight is worth.
  var clock = function (us, span) {
    return span > 1e5 ? (us / 1e6).toFixed(3) + ' s' : (us / 1e6).toFixed(6).replace(/(\.\d{3})(\d{3})$/, '$1\u202f$2') + ' s';
  };

  var outcomes = ['ok', 'fail', 'unknown'];
  var means = ['certainly done', 'certainly not done', 'perhaps done'];

  function operation(m, i) {
    var o = m.ops, raw = m.raw, p = raw.procs[o.proc[i]], file = raw.files[p.file];
    return {
      kind: raw.kinds[o.kind[i]].name, about: raw.kinds[o.kind[i]].about, outcome: outcomes[o.outcome[i]], means: means[o.outcome[i]],
      proc: p.name, worker: raw.workers[p.worker].name, lane: o.lane[i] < 0 ? '' : raw.lanes[o.lane[i]], name: o.name[i] < 0 ? '' : raw.names[o.name[i]],
      token: o.token[i] ? D.token(o.token[i]) : '', say: raw.says[o.say[i]], at: clock(o.at[i]), took: o.ended[i] ? D.duration(o.end[i] - o.at[i]) : '',
      file: file, line: o.line[i], endLine: o.endLine[i]
    };
  }

  function operationTip(m, i, others) {
    var o = operation(m, i);
    var lines = [o.kind + ' ' + o.outcome + (o.token ? ' · token ' + o.token : ''), o.proc + (o.lane ? ' on ' + o.lane : '') + (o.name && o.name !== o.lane ? ' (' + o.name + ')' : ''),
      o.at + (o.took ? ', took ' + o.took : ', no end recorded')];
    if (o.say) { lines.push(o.say); }
    lines.push(o.file + ':' + o.line);
    if (others > 1) { lines.push((others - 1) + ' more here: zoom in'); }
    return lines.join('\n');
  }

  function holdTip(m, i) {
    var h = m.holds, raw = m.raw, lines = [raw.procs[h.proc[i]].name + (raw.noun === 'shard' ? ' owns ' : ' holds ') + raw.lanes[h.lane[i]] + ' · token ' + D.token(h.token[i])];
    lines.push(clock(h.from[i]) + ' – ' + clock(h.to[i]) + ', ' + D.duration(h.to[i] - h.from[i]));
    lines.push((h.flags[i] & 1 ? 'taken over; ' : '') + (h.flags[i] & 2 ? 'its client never learnt of it; ' : '') + 'ended by ' + raw.ended_by[h.ended[i]]);
    return lines.join('\n');
  }

  var fact = function (name, value) { return el('div', {}, [el('dt', {}, [name]), el('dd', {}, [].concat(value))]); };

  function where(file, line) { return el('a', { href: file, class: 'mono' }, [file + ':' + line]); }

  function badge(outcome) { return el('span', { class: 'type t-' + outcome }, [outcome]); }

  function operationPane(m, i) {
    var o = operation(m, i), facts = [];
    var add = function (name, value) { if (value !== '') { facts.push(fact(name, value)); } };
    add(m.raw.noun, o.lane);
    if (o.name !== o.lane) { add('on', o.name); }
    add('process', o.proc);
    add('token', o.token);
    add('begins', o.at);
    add('took', o.took || 'no end recorded');
    facts.push(fact('recorded at', o.endLine ? [where(o.file, o.line), ', ends ', where(o.file, o.endLine)] : [where(o.file, o.line)]));
    return [el('h3', {}, [o.kind + ' ', badge(o.outcome), ' ', el('small', {}, [o.means + (o.about ? ' · ' + o.about : '')])])].concat(
      o.say ? [el('p', {}, [o.say + '.'])] : [], [el('dl', { class: 'facts' }, facts)], inViolations(m, i));
  }

  // inViolations names the violations that an operation is an event of.
  function inViolations(m, i) {
    var links = [];
    m.raw.violations.forEach(function (v, k) {
      if (v.events.some(function (e) { return e.op === i; })) {
        links.push(el('button', { type: 'button', class: 'tl-link', 'data-violation': k }, [v.heading]));
      }
    });
    return links.length ? [el('p', {}, ['Part of: '].concat(links))] : [];
  }

  function holdPane(m, i) {
    var h = m.holds, raw = m.raw;
    var facts = [
      fact(raw.noun, raw.lanes[h.lane[i]]), fact('token', D.token(h.token[i])), fact('from', clock(h.from[i])), fact('to', clock(h.to[i])),
      fact('lasted', D.duration(h.to[i] - h.from[i])), fact('ended by', raw.ended_by[h.ended[i]])
    ];
    if (h.row[i] > h.to[i] + 1) { facts.push(fact('row free or another’s', clock(h.row[i]))); }
    var kind = (h.flags[i] & 1 ? 'taken over from another' : 'taken free') + (h.flags[i] & 2 ? '; its client never learnt of it' : '');
    return [el('h3', {}, [raw.procs[h.proc[i]].name + (raw.noun === 'shard' ? ' owns ' : ' holds ') + raw.lanes[h.lane[i]] + ' ', el('small', {}, [kind])]), el('dl', { class: 'facts' }, facts)];
  }

  function violationPane(m, k) {
    var v = m.raw.violations[k], list = [];
    v.events.forEach(function (e) {
      var o = e.op >= 0 ? operation(m, e.op) : null;
      var text = o ? o.kind + (o.token ? ' ' + o.token : '') + ', ' + o.proc : e.text;
      list.push(el('li', {}, [el('button', { type: 'button', class: 'tl-link', 'data-event': e.n, 'data-violation': k }, ['#' + e.n]), ' ' + (e.at < 0 ? '' : clock(e.at) + ' '), text].concat(o ? [' ', badge(o.outcome)] : [])));
    });
    return [el('h3', {}, [v.heading + ' ', el('small', { class: 'mono' }, [v.key])]), el('p', {}, [v.message]),
      el('p', {}, [v.tokens.length ? 'Tokens ' + v.tokens.join(', ') + ' · ' : '', D.duration(v.to - v.from) + ' of the run · ', el('a', { href: '#' + v.id, class: 'tl-read' }, ['Drawing and events of this violation'])]),
      el('ol', { class: 'tl-events' }, list)];
  }

  function markTip(k) { return k.name + ' · ' + k.proc + '\n' + clock(k.at) + '\n' + k.text + '\n' + k.file + ':' + k.line; }

  return { el: el, clock: clock, operationTip: operationTip, holdTip: holdTip, markTip: markTip, operationPane: operationPane, holdPane: holdPane, violationPane: violationPane };
})();

// The time line's violations: their markers over the lanes, and what leads to them
// from their text on the page.
var timelineViolations = (function () {
  'use strict';
  var W = timelineDraw, el = timelineWords.el;

  // markers puts a button where each violation is; those too near to tell apart share one.
  function markers(box, m, v, theme) {
    var raw = m.raw, x = W.scale(v), rows = {}, y = 0;
    box.hidden = !raw.violations.length;
    if (box.hidden) { return; }
    var focused = box.contains(document.activeElement) ? document.activeElement.dataset.violation : null;
    box.replaceChildren(el('canvas', {}));
    raw.violations.forEach(function (f, k) { (rows[f.property] = rows[f.property] || []).push(k); });
    Object.keys(rows).forEach(function (property) {
      box.append(Object.assign(el('span', { class: 'tl-property' }, [property]), { style: 'top:' + (y + 3) + 'px' }));
      var at = rows[property].filter(function (k) { var f = raw.violations[k]; return f.to >= v.from && f.from <= v.to; }).map(function (k) {
        var f = raw.violations[k];
        return { k: k, x: Math.min(Math.max(x(f.to), v.x0 + 1), v.x1 - 1) };
      }).sort(function (a, b) { return a.x - b.x || a.k - b.k; });
      var groups = [];
      at.forEach(function (p) {
        var g = groups[groups.length - 1];
        if (g && p.x - g.x < 18) { g.all.push(p.k); } else { groups.push({ x: p.x, all: [p.k] }); }
      });
      groups.forEach(function (g, i) {
        var f = raw.violations[g.all[0]], next = groups[i + 1] ? groups[i + 1].x : v.x1 + 60;
        var token = f.tokens.length ? 'token ' + f.tokens.slice(0, 2).join(' ↔ ') : f.property;
        var text = g.all.length > 1 ? '×' + g.all.length : next - g.x > 118 && v.w > 620 ? token : '!';
        var chosen = g.all.indexOf(v.violation) >= 0;
        var b = el('button', { type: 'button', class: 'tl-marker' + (chosen ? ' on' : ''), 'data-violation': chosen ? v.violation : g.all[0], 'aria-label': text + ', ' + f.heading + (g.all.length > 1 ? ' and ' + (g.all.length - 1) + ' more' : '') + ': ' + f.message }, [text]);
        b.style.top = y + 2 + 'px';
        if (g.x > v.x1 - 100) { b.style.right = v.w - Math.min(g.x + 9, v.x1) + 'px'; } else { b.style.left = Math.max(g.x - 9, v.x0) + 'px'; }
        b.all = g.all;
        box.append(b);
        if (focused !== null && g.all.indexOf(+focused) >= 0) { b.focus({ preventScroll: true }); }
      });
      y += 24;
    });
    box.style.height = y + 'px';
    var g = W.fit(box.firstChild, v.w, y);
    W.bands(g, m, v, theme, 0, y);
    y = 0;
    Object.keys(rows).forEach(function (property) { // the windows
      rows[property].forEach(function (k) {
        var f = raw.violations[k], a = Math.max(x(f.from), v.x0), b = Math.min(Math.max(x(f.to), x(f.from) + 2), v.x1);
        if (b <= v.x0 || a >= v.x1) { return; }
        g.fillStyle = W.alpha(theme.fail, k === v.violation ? 0.9 : 0.35);
        g.fillRect(a, y + 11, b - a, 3);
      });
      y += 24;
    });
  }

  // lead adds buttons to the violations' text; go shows one, by its index and an event's number.
  function lead(raw, go) {
    raw.violations.forEach(function (v, k) {
      var article = document.getElementById(v.id);
      if (!article) { return; }
      var b = el('button', { type: 'button', class: 'tl-show' }, ['Show in the time line']);
      b.addEventListener('click', function () { go(k); });
      article.querySelector('h3').append(' ', b);
      article.querySelectorAll('table.events tbody tr').forEach(function (row, i) {
        var cell = row.cells[0], n = el('button', { type: 'button', class: 'tl-link', title: 'Show in the time line', 'aria-label': 'Event ' + (i + 1) + ' in the time line' }, [cell.textContent]);
        cell.replaceChildren(n);
        row.classList.add('tl-row');
        row.addEventListener('click', function (e) { if (!e.target.closest('a')) { go(k, i + 1); } });
      });
    });
    document.querySelectorAll('[data-show-violation]').forEach(function (a) {
      a.addEventListener('click', function (e) {
        var k = raw.violations.findIndex(function (v) { return v.id === a.dataset.showViolation; });
        if (k >= 0) {
          e.preventDefault();
          go(k);
        }
      });
    });
  }

  return { markers: markers, lead: lead };
})();
