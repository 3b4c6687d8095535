// The time line's curves: throughput by outcome and latency, by uPlot, on the axis
// that all parts share.
var timelineCharts = (function () {
  'use strict';
  var D = timelineData, W = timelineDraw;
  var heights = { rate: 128, latency: 150 };

  // make creates the charts anew: after a change of theme or of the gutter. get
  // returns the view: from, to, x0, violation.
  function make(m, rateBox, latencyBox, t, w, gutter, right, get) {
    var x = { time: false, range: function () { var v = get(); return [v.from / 1e6, v.to / 1e6]; } };
    var hooks = {
      draw: [function (u) { // bands over the curves, in CSS pixels
        var r = devicePixelRatio || 1, b = u.bbox, v = get();
        u.ctx.save();
        u.ctx.scale(r, r);
        W.bands(u.ctx, m, { from: v.from, to: v.to, x0: b.left / r, x1: (b.left + b.width) / r, violation: v.violation }, t, 0, u.height);
        u.ctx.restore();
      }]
    };
    var common = { width: w, legend: { show: false }, cursor: { show: false }, hooks: hooks };
    var area = function (name, color) {
      return { label: name, stroke: color, width: 1, fill: W.mix(color, t.card, 0.28), points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) };
    };
    rateBox.textContent = latencyBox.textContent = '';
    var rate = new uPlot(Object.assign({}, common, {
      height: heights.rate, padding: [26, right, 4, 0], scales: { x: x, y: { range: function (u, lo, hi) { return [0, Math.max(hi || 0, 1) * 1.08]; } } },
      axes: [curves.axis({ show: false }), curves.axis({ size: gutter, space: 28 })],
      series: [{}, area('unknown', t.unknown), area('fail', t.fail), area('ok', t.ok)]
    }), [[0, 1], [0, 0], [0, 0], [0, 0]], rateBox);
    var latency = new uPlot(Object.assign({}, common, {
      height: heights.latency, padding: [26, right, 0, 0],
      scales: {
        x: x, y: {
          distr: 3, range: function (u, lo, hi) {
            if (!(lo > 0)) { return [0.001, 1]; }
            var a = Math.pow(10, Math.floor(Math.log10(lo * 0.999))), b = Math.pow(10, Math.ceil(Math.log10(hi * 1.001)));
            return hi < b / 4 && lo < a * 5 ? [a, b / 2] : [a, b];
          }
        }
      },
      axes: [curves.axis({ size: 28, values: curves.seconds, space: 70 }), curves.durations({ size: gutter })],
      series: [{}, { label: 'p50', stroke: t.ok, width: 2, points: { show: true, size: 4, fill: t.ok } }, { label: 'p99', stroke: t.tail, width: 1.6, dash: [5, 3], points: { show: true, size: 4, fill: t.tail } }]
    }), [[0, 1], [0.01, 0.01], [0.01, 0.01]], latencyBox);
    return { rate: rate, latency: latency };
  }

  // render counts anew for the time in sight and draws.
  function render(c, m, shown, filter, kind, v) {
    var r = D.rates(m, shown, v.from, v.to), l = D.latencies(m, filter, kind, v.from, v.to), i;
    var xs = [], ok = [], fail = [], unknown = [];
    for (i = 0; i < r.n; i++) {
      xs.push((r.from + i * r.width) / 1e6);
      ok.push(r.by[0][i]);
      fail.push(r.by[0][i] + r.by[1][i]);
      unknown.push(fail[i] + r.by[2][i]);
    }
    c.rate.setData([xs, unknown, fail, ok]);
    var mid = [];
    for (i = 0; i < l.n; i++) { mid.push((l.from + (i + 0.5) * l.width) / 1e6); }
    c.latency.setData([mid, l.p50, l.p99]);
    return { rates: r, latencies: l };
  }

  // numbers are what the curves say at an instant.
  function numbers(n, at) {
    var r = n.rates, k = Math.min(Math.max(Math.floor((at - r.from) / r.width), 0), r.n - 1), l = n.latencies;
    var round = function (x) { return x >= 100 ? Math.round(x) : +x.toPrecision(3); };
    return {
      ok: round(r.by[0][k]), fail: round(r.by[1][k]), unknown: round(r.by[2][k]), width: r.width,
      p50: l.p50[k] === null ? '–' : D.duration(l.p50[k] * 1e6), p99: l.p99[k] === null ? '–' : D.duration(l.p99[k] * 1e6), count: l.count[k]
    };
  }

  return { make: make, render: render, numbers: numbers, heights: heights };
})();
