(function () {
  'use strict';
  document.documentElement.classList.add('has-js');

  document.querySelectorAll('.command').forEach(function (box) {
    var button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Copy';
    button.setAttribute('aria-live', 'polite');
    button.addEventListener('click', function () {
      var text = box.querySelector('code').textContent;
      var done = function (ok) {
        button.textContent = ok ? 'Copied' : 'Select it';
        setTimeout(function () { button.textContent = 'Copy'; }, 1600);
      };
      var byHand = function () {
        var range = document.createRange();
        range.selectNodeContents(box.querySelector('code'));
        var sel = getSelection();
        sel.removeAllRanges();
        sel.addRange(range);
        var ok = false;
        try { ok = document.execCommand('copy'); } catch (e) { ok = false; }
        done(ok);
      };
      if (navigator.clipboard) { navigator.clipboard.writeText(text).then(function () { done(true); }, byHand); } else { byHand(); }
    });
    box.appendChild(button);
  });

  // A cursor over all charts of one time range, with the numbers of its bucket.
  var node = document.getElementById('run-data');
  var tip = document.getElementById('tip');
  if (!node || !tip) { return; }
  var data = JSON.parse(node.textContent);
  if (!data || !data.rates || !data.rates.length) { return; }
  var charts = [].map.call(document.querySelectorAll('svg.plot[data-x1]'), function (svg) {
    var d = svg.dataset;
    return { svg: svg, x0: +d.x0, x1: +d.x1, t0: +d.t0, t1: +d.t1, h: svg.viewBox.baseVal.height, w: svg.viewBox.baseVal.width };
  });
  var round = function (v) { return v >= 100 ? Math.round(v) : Math.round(v * 10) / 10; };
  var ms = function (v) { return v >= 1000 ? round(v / 10) / 100 + ' s' : round(v) + ' ms'; };
  var inside = function (list, t) {
    return list.filter(function (w) { return t >= w.from && t < w.to; }).map(function (w) { return w.name; });
  };
  var text = function (t) {
    var i = Math.min(Math.max(Math.floor(t / data.width), 0), data.rates.length - 1);
    var r = data.rates[i];
    var phase = inside(data.phases, t)[0] || '';
    var lines = [t.toFixed(2) + ' s' + (phase ? ' · ' + phase : '')];
    var faults = inside(data.faults, t);
    if (faults.length) { lines.push('fault ' + faults.join(', ')); }
    lines.push(round(r[0]) + ' cycles/s');
    lines.push('ok ' + round(r[1]) + '/s  fail ' + round(r[2]) + '/s  unknown ' + round(r[3]) + '/s');
    data.ops.forEach(function (op) {
      var c = op.cuts[i];
      if (c && c[0]) { lines.push(op.name + ': p50 ' + ms(c[1]) + ', p99 ' + ms(c[2]) + ' (' + c[0] + ')'); }
    });
    return lines.join('\n');
  };
  var hide = function () {
    tip.hidden = true;
    charts.forEach(function (c) { if (c.line) { c.line.setAttribute('visibility', 'hidden'); } });
  };
  var show = function (at, t, pageX, pageY) {
    charts.forEach(function (c) {
      if (!c.line) {
        c.line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
        c.line.setAttribute('class', 'cursor');
        c.svg.appendChild(c.line);
      }
      var x = c.x0 + (t - c.t0) / (c.t1 - c.t0) * (c.x1 - c.x0);
      var seen = t >= c.t0 && t <= c.t1;
      c.line.setAttribute('visibility', seen ? 'visible' : 'hidden');
      c.line.setAttribute('x1', x);
      c.line.setAttribute('x2', x);
      c.line.setAttribute('y1', 0);
      c.line.setAttribute('y2', c.h);
    });
    tip.textContent = text(t);
    tip.hidden = false;
    var left = pageX + 16;
    if (left + tip.offsetWidth > document.documentElement.clientWidth - 8) { left = pageX - tip.offsetWidth - 16; }
    tip.style.left = Math.max(left, 4) + 'px';
    tip.style.top = pageY + 14 + 'px';
  };
  charts.forEach(function (c) {
    var at = null;
    c.svg.addEventListener('pointermove', function (e) {
      var box = c.svg.getBoundingClientRect();
      var x = (e.clientX - box.left) / box.width * c.w;
      if (x < c.x0 || x > c.x1) { hide(); return; }
      at = c.t0 + (x - c.x0) / (c.x1 - c.x0) * (c.t1 - c.t0);
      show(c, at, e.pageX, e.pageY);
    });
    c.svg.addEventListener('pointerleave', hide);
    var figure = c.svg.closest('figure');
    figure.addEventListener('keydown', function (e) {
      if (e.key === 'Escape') { hide(); return; }
      // A chart that is wider than the screen keeps its arrow keys for scrolling.
      if (e.key !== 'ArrowLeft' && e.key !== 'ArrowRight' || figure.scrollWidth > figure.clientWidth + 1) { return; }
      e.preventDefault();
      var step = e.shiftKey ? 10 * data.width : data.width;
      at = at === null ? c.t0 : at + (e.key === 'ArrowRight' ? step : -step);
      at = Math.min(Math.max(at, c.t0), c.t1 - data.width / 100);
      var box = c.svg.getBoundingClientRect();
      var x = c.x0 + (at - c.t0) / (c.t1 - c.t0) * (c.x1 - c.x0);
      show(c, at, box.left + scrollX + x / c.w * box.width, box.top + scrollY + box.height / 3);
    });
    figure.addEventListener('blur', hide);
  });
})();
