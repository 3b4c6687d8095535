// The interactive time line: one axis for curves, violations and lanes.
(function () {
  'use strict';
  var $ = function (id) { return document.getElementById(id); };
  var node = $('tl-data'), root = $('tl');
  if (!node || !root) { return; }
  var D = timelineData, W = timelineDraw, C = timelineCharts, T = timelineWords, V = timelineViolations, el = T.el;
  var m = D.decode(JSON.parse(node.textContent)), raw = m.raw;
  var plot = $('tl-plot'), scroller = $('tl-lanes'), canvas = $('tl-canvas'), tip = $('tip');
  document.documentElement.classList.add('has-timeline');
  root.hidden = false;

  // What is seen. Everything on the page follows from it.
  var s = {
    from: 0, to: m.end, by: raw.lanes.length > 200 ? 'proc' : 'row', op: -1, hold: -1, violation: -1, latency: raw.headline,
    filter: { lane: -1, worker: -1, kinds: raw.kinds.map(function (k) { return !k.off; }), outcomes: [true, true, true], violations: false }
  };
  var minSpan = 100; // µs
  var theme, charts, lanes = [], shown, numbersOf = null, now, gutter, right = 12, width = 0, waiting = false;

  // ---- drawing

  function view() {
    return { from: s.from, to: s.to, x0: gutter, x1: width - right, w: width, violation: s.violation };
  }

  function lanesView() {
    return Object.assign(view(), { h: scroller.clientHeight, top: scroller.scrollTop, lanes: lanes, by: s.by, numbers: numbersOf, op: s.op });
  }

  function soon() {
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(function () { waiting = false; render(); });
    }
  }

  function render() {
    if (!width) { return; } // it is not laid out, as on paper
    var v = view();
    W.strip($('tl-strip'), m, v, theme, width);
    now = C.render(charts, m, shown.shown, s.filter, s.latency, v);
    legends(null);
    V.markers($('tl-found'), m, v, theme);
    W.draw(canvas, m, lanesView(), theme);
  }

  // rebuild makes all that depends on the theme or the width.
  function rebuild() {
    width = Math.floor(plot.clientWidth);
    if (!width) { return; }
    gutter = width < 620 ? 74 : 128;
    theme = W.theme(raw);
    charts = C.make(m, $('tl-rate'), $('tl-latency'), theme, width, gutter, right, view);
    plot.style.setProperty('--gutter', gutter + 'px');
    soon();
  }

  // refilter makes all that depends on what is shown.
  function refilter() {
    numbersOf = null;
    if (s.violation >= 0) {
      numbersOf = {};
      raw.violations[s.violation].events.forEach(function (e) { if (e.op >= 0) { (numbersOf[e.op] = numbersOf[e.op] || []).push(e); } });
    }
    shown = D.filter(m, s.filter, numbersOf);
    lanes = D.pack(m, s.filter, shown.shown, s.by);
    var tall = W.layout(lanes, 470);
    $('tl-tall').style.height = Math.max(tall, 40) + 'px';
    scroller.style.height = Math.min(Math.max(tall, 40), 520) + 'px';
    $('tl-shown').textContent = shown.n.toLocaleString('en').replace(/,/g, '\u202f') + ' of ' + m.ops.n.toLocaleString('en').replace(/,/g, '\u202f') + ' operations';
    $('tl-shown').dataset.n = shown.n;
    soon();
  }

  function show(from, to) {
    var span = Math.min(Math.max(to - from, minSpan), m.end);
    from = Math.min(Math.max((from + to - span) / 2, 0), m.end - span);
    s.from = from;
    s.to = from + span;
    plot.dataset.from = Math.round(s.from);
    plot.dataset.to = Math.round(s.to);
    $('tl-range').textContent = T.clock(Math.round(s.from), span) + ' – ' + T.clock(Math.round(s.to), span) + ' (' + D.duration(Math.round(span)) + ')';
    $('tl-all').disabled = $('tl-out').disabled = span >= m.end;
    $('tl-left').disabled = s.from <= 0;
    $('tl-right').disabled = s.to >= m.end;
    soon();
  }

  var zoom = function (k, at) {
    if (at === undefined) { at = (s.from + s.to) / 2; }
    var span = Math.min(Math.max((s.to - s.from) * k, minSpan), m.end), part = (at - s.from) / (s.to - s.from);
    show(at - part * span, at - part * span + span);
  };
  var move = function (part) {
    var by = Math.min(Math.max((s.to - s.from) * part, -s.from), m.end - s.to);
    show(s.from + by, s.to + by);
  };

  function legends(at) {
    var v = at === null ? null : C.numbers(now, at);
    $('tl-rate-now').replaceChildren.apply($('tl-rate-now'), W.outcomes.map(function (o) { return el('span', { class: 't-' + o }, ['■ ' + o + (v ? ' ' + v[o] : '')]); }));
    $('tl-latency-now').replaceChildren(el('span', { class: 't-ok' }, ['● p50' + (v ? ' ' + v.p50 : '')]), el('span', { class: 'tl-p99' }, ['● p99' + (v ? ' ' + v.p99 : '')]), el('span', { class: 'muted' }, [v ? 'n ' + v.count : '']));
  }

  // ---- violations

  function choose(violation, event) {
    s.violation = violation;
    s.op = s.hold = -1;
    refilter();
    if (violation < 0) {
      pane(null);
      return;
    }
    var f = raw.violations[violation], pad = Math.max((f.to - f.from) * 0.12, 2000);
    show(f.from - pad, f.to + pad);
    pane(T.violationPane(m, violation));
    var e = f.events.filter(function (e) { return e.n === event; })[0];
    if (e && e.op >= 0) { chooseOp(e.op, true); }
    reveal(e && e.op >= 0 ? laneOfOp(e.op) : lanes.filter(function (l) { return s.by === 'row' && l.id === f.lane; })[0]);
  }

  var laneOfOp = function (i) { return lanes.filter(function (l) { return l.rows.some(function (r) { return r.ops.indexOf(i) >= 0; }); })[0]; };

  function reveal(lane) {
    if (!lane) { return; }
    if (lane.y < scroller.scrollTop || lane.y + lane.h > scroller.scrollTop + scroller.clientHeight) { scroller.scrollTop = Math.max(lane.y - 40, 0); }
  }

  // go shows a violation from elsewhere on the page.
  function go(violation, event) {
    choose(violation, event);
    root.scrollIntoView({ block: 'start' });
    plot.focus({ preventScroll: true });
  }

  function step(by) {
    var n = raw.violations.length;
    if (n) { choose(s.violation < 0 ? (by > 0 ? 0 : n - 1) : (s.violation + by + n) % n); }
  }

  // ---- what is chosen

  function pane(content) {
    $('tl-detail').replaceChildren.apply($('tl-detail'), content || []);
  }

  function chooseOp(i, keep) {
    s.op = i;
    s.hold = -1;
    if (i >= 0 && keep && s.violation >= 0) {
      var box = el('div', { class: 'tl-two' }, [el('div', {}, T.violationPane(m, s.violation)), el('div', {}, T.operationPane(m, i))]);
      pane([box]);
    } else { pane(i < 0 ? null : T.operationPane(m, i)); }
    if (i >= 0 && (m.ops.end[i] < s.from || m.ops.at[i] > s.to)) {
      var span = s.to - s.from;
      show(m.ops.at[i] - span / 2, m.ops.at[i] + span / 2);
    }
    soon();
  }

  function neighbour(by) {
    var o = m.ops, lane = s.op >= 0 ? laneOfOp(s.op) : lanes[0];
    if (!lane) { return; }
    var all = [].concat.apply([], lane.rows.map(function (r) { return r.ops; })).sort(function (a, b) { return a - b; });
    var k = s.op >= 0 ? all.indexOf(s.op) + by : all.findIndex(function (i) { return o.end[i] >= s.from; });
    if (all[k] === undefined) { return; }
    chooseOp(all[k], s.violation >= 0);
    reveal(lane);
  }

  // ---- the pointer

  function place(e) {
    var box = plot.getBoundingClientRect(), x = e.clientX - box.left - plot.clientLeft;
    return { x: x, t: s.from + (x - gutter) / (width - right - gutter) * (s.to - s.from), inside: x >= gutter && x <= width - right };
  }

  // under says what the pointer is at: an operation, a holding or a mark.
  function under(e) {
    var p = place(e), box = scroller.getBoundingClientRect(), y = e.clientY - box.top + scroller.scrollTop;
    if (!p.inside || e.clientY < box.top || e.clientY > box.bottom) { return null; }
    var lane = lanes.filter(function (l) { return y >= l.y - 3 && y < l.y + l.h + 3; })[0];
    if (!lane) { return null; }
    var px = (s.to - s.from) / (width - right - gutter), inLane = y - lane.y;
    var mark = raw.marks.filter(function (k) { return Math.abs(k.at - p.t) < 5 * px && (s.by === 'row' ? k.lanes[lane.id] : D.life(k.proc) === D.life(lane.name)); })[0];
    if (mark) { return { mark: mark }; }
    if (inLane < lane.holdH) {
      var hold = lane.holds.filter(function (i) { return m.holds.from[i] <= p.t + px && m.holds.to[i] >= p.t - px; })[0];
      return hold === undefined ? null : { hold: hold };
    }
    var row = lane.rows[Math.min(Math.max(Math.floor((inLane - lane.holdH - 1) / lane.rowH), 0), lane.rows.length - 1)];
    if (!row) { return null; }
    var best = -1, least = Infinity, n = 0, o = m.ops;
    for (var k = D.first(row.until, p.t - 3 * px); k < row.ops.length && o.at[row.ops[k]] <= p.t + 3 * px; k++) {
      var i = row.ops[k], d = Math.max(o.at[i] - p.t, p.t - o.end[i], 0);
      if (o.end[i] < p.t - 3 * px) { continue; }
      n++;
      if (d < least || d === least && o.outcome[i] > o.outcome[best]) {
        best = i;
        least = d;
      }
    }
    return best < 0 ? null : { op: best, n: n };
  }

  function hover(e) {
    var p = place(e), marker = e.target.closest && e.target.closest('.tl-marker');
    var line = $('tl-cursor');
    line.hidden = !p.inside;
    if (!p.inside) {
      tip.hidden = true;
      legends(null);
      return;
    }
    line.style.left = p.x + 'px';
    legends(p.t);
    var u = under(e), text = T.clock(Math.round(p.t), s.to - s.from);
    if (marker) {
      text = marker.all.slice(0, 4).map(function (k) { return raw.violations[k].heading + '\n' + raw.violations[k].message; }).join('\n');
    } else if (u) { text = u.mark ? T.markTip(u.mark) : u.op >= 0 ? T.operationTip(m, u.op, u.n) : T.holdTip(m, u.hold); }
    raw.faults.forEach(function (f) { if (p.t >= f.from && p.t < f.to && !u && !marker) { text += '\nfault ' + f.id + ' ' + f.name; } });
    canvas.style.cursor = u && !u.mark ? 'pointer' : 'crosshair';
    tip.textContent = text;
    tip.hidden = false;
    tip.classList.toggle('wrap', !!marker);
    var left = e.pageX + 14;
    if (left + tip.offsetWidth > document.documentElement.clientWidth - 8) { left = e.pageX - tip.offsetWidth - 14; }
    tip.style.left = Math.max(left, 4) + 'px';
    tip.style.top = e.pageY + 16 + 'px';
  }

  function leave() {
    tip.hidden = true;
    $('tl-cursor').hidden = true;
    legends(null);
  }

  var drag = null;
  plot.addEventListener('pointerdown', function (e) {
    var p = place(e);
    if (e.button !== 0 || !p.inside || e.target.closest('button,select,label') || e.offsetX > scroller.clientWidth && e.target === scroller) { return; }
    drag = { x: p.x, t: p.t, from: s.from, to: s.to, pan: e.shiftKey, moved: false };
    plot.focus({ preventScroll: true });
    e.preventDefault();
  });
  plot.addEventListener('pointermove', function (e) {
    if (!drag) {
      hover(e);
      return;
    }
    var x = Math.min(Math.max(place(e).x, gutter), width - right);
    if (!drag.moved && Math.abs(x - drag.x) < 4) { return; }
    if (!drag.moved) {
      plot.setPointerCapture(e.pointerId);
      leave();
    }
    drag.moved = true;
    if (drag.pan) {
      var by = (drag.x - x) / (width - right - gutter) * (drag.to - drag.from);
      by = Math.min(Math.max(by, -drag.from), m.end - drag.to);
      show(drag.from + by, drag.to + by);
      return;
    }
    var brush = $('tl-brush');
    brush.hidden = false;
    brush.style.left = Math.min(x, drag.x) + 'px';
    brush.style.width = Math.abs(x - drag.x) + 'px';
  });
  plot.addEventListener('pointerup', function (e) {
    if (!drag) { return; }
    var was = drag;
    drag = null;
    $('tl-brush').hidden = true;
    if (was.moved) {
      var x = Math.min(Math.max(place(e).x, gutter), width - right), t = s.from + (x - gutter) / (width - right - gutter) * (s.to - s.from);
      if (!was.pan) { show(Math.min(t, was.t), Math.max(t, was.t)); }
      return;
    }
    var u = under(e);
    if (u && u.op >= 0) { chooseOp(u.op, s.violation >= 0); } else if (u && u.hold >= 0) {
      s.op = -1;
      pane(T.holdPane(m, u.hold));
      soon();
    }
  });
  plot.addEventListener('pointercancel', function () { drag = null; $('tl-brush').hidden = true; });
  plot.addEventListener('pointerleave', leave);
  plot.addEventListener('dblclick', function (e) { if (!e.target.closest('button,select')) { show(0, m.end); } });

  // The wheel zooms, but a page that is being scrolled past goes on being scrolled.
  var scrolled = -1e9;
  addEventListener('scroll', function () { scrolled = performance.now(); }, { passive: true });
  plot.addEventListener('wheel', function (e) {
    var p = place(e), focused = document.activeElement === plot || document.activeElement === scroller;
    if (!p.inside || !focused && !e.ctrlKey && performance.now() - scrolled < 350) { return; }
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      e.preventDefault();
      move((e.deltaX || e.deltaY) / 800);
      return;
    }
    if (e.deltaY > 0 && s.to - s.from >= m.end && !e.ctrlKey) { return; }
    e.preventDefault();
    zoom(Math.pow(1.0018, Math.min(Math.max(e.deltaY * (e.deltaMode ? 30 : 1), -400), 400)), p.t);
  }, { passive: false });
  scroller.addEventListener('scroll', function () {
    canvas.style.transform = 'translateY(' + scroller.scrollTop + 'px)';
    if (width) { W.draw(canvas, m, lanesView(), theme); }
  });

  plot.addEventListener('keydown', function (e) {
    if (e.target.closest('select') || e.altKey || e.metaKey || e.ctrlKey) { return; }
    var on = {
      '+': function () { zoom(0.5); }, '=': function () { zoom(0.5); }, '-': function () { zoom(2); }, ArrowLeft: function () { move(e.shiftKey ? -0.8 : -0.2); }, ArrowRight: function () { move(e.shiftKey ? 0.8 : 0.2); },
      ArrowUp: function () { scroller.scrollTop -= 60; }, ArrowDown: function () { scroller.scrollTop += 60; }, Home: function () { show(0, s.to - s.from); }, End: function () { show(m.end - (s.to - s.from), m.end); },
      '0': function () { show(0, m.end); }, n: function () { step(1); }, p: function () { step(-1); }, '.': function () { neighbour(1); }, ',': function () { neighbour(-1); }, Escape: function () { choose(-1); leave(); }
    }[e.key];
    if (on) {
      e.preventDefault();
      on();
    }
  });

  // ---- controls

  function chip(box, text, about, color, get, set) {
    var b = el('button', { type: 'button', class: 'tl-chip', title: about, 'aria-pressed': String(get()) }, [el('i', {}), text]);
    b.firstChild.style.background = color;
    b.addEventListener('click', function () {
      set(b);
      refilter();
    });
    box.append(b);
    return b;
  }

  var toggle = function (list, i) {
    return function (b) {
      list[i] = !list[i];
      b.setAttribute('aria-pressed', String(list[i]));
    };
  };
  W.outcomes.forEach(function (o, i) {
    chip($('tl-outcomes'), o, ['certainly done', 'certainly not done', 'perhaps done'][i], 'var(--' + o + ')', function () { return true; }, toggle(s.filter.outcomes, i));
  });
  raw.kinds.forEach(function (k, i) {
    chip($('tl-kinds'), k.name, k.about, 'transparent', function () { return s.filter.kinds[i]; }, toggle(s.filter.kinds, i));
    $('tl-of').append(el('option', { value: i }, [k.name]));
  });
  // One worker or all: the chips are the key to the lanes' colours too.
  var people = raw.workers.map(function (w, i) {
    return chip($('tl-workers'), w.name, 'only ' + w.name, 'var(--' + w.color + ')', function () { return false; }, function () {
      s.filter.worker = s.filter.worker === i ? -1 : i;
      people.forEach(function (b, k) { b.setAttribute('aria-pressed', String(k === s.filter.worker)); });
    });
  });
  raw.lanes.forEach(function (l, i) { $('tl-lane').append(el('option', { value: i }, [l])); });
  $('tl-of').value = raw.headline;
  $('tl-by').value = s.by;
  $('tl-by').addEventListener('change', function () { s.by = this.value; refilter(); });
  $('tl-lane').addEventListener('change', function () { s.filter.lane = +this.value; refilter(); });
  $('tl-of').addEventListener('change', function () { s.latency = +this.value; soon(); });
  $('tl-only').addEventListener('change', function () { s.filter.violations = this.checked; refilter(); });
  [['tl-in', function () { zoom(0.5); }], ['tl-out', function () { zoom(2); }], ['tl-left', function () { move(-0.5); }], ['tl-right', function () { move(0.5); }],
    ['tl-all', function () { show(0, m.end); }], ['tl-prev', function () { step(-1); }], ['tl-next', function () { step(1); }]].forEach(function (b) { $(b[0]).addEventListener('click', b[1]); });
  $('tl-only-box').hidden = $('tl-jumps').hidden = !raw.violations.length;

  // Anything that names a violation leads to it; data-event is a row of its table.
  root.addEventListener('click', function (e) {
    var b = e.target.closest('[data-violation]');
    if (b) { choose(+b.dataset.violation, +b.dataset.event || undefined); }
  });
  V.lead(raw, go);

  new ResizeObserver(function () { if (Math.floor(plot.clientWidth) !== width) { rebuild(); } }).observe(plot);
  matchMedia('(prefers-color-scheme:dark)').addEventListener('change', rebuild);
  refilter();
  show(0, m.end);
  rebuild();
  render();
  plot.dataset.ready = 'yes';
})();
