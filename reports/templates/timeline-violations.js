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
