(function () {
  'use strict';
  var form = document.querySelector('form.search');
  var chosen = {}; // names of the runs to compare, also those on other pages of the list
  var number = 0; // of the last request: an answer that was overtaken is not shown

  function list() { return document.getElementById('list'); }
  function boxes() { return list().querySelectorAll('input[name=run][type=checkbox]'); }

  // The choice of runs survives searching and paging.
  function compared() {
    var target = document.getElementById('compare');
    if (!target) { return; }
    var here = {};
    boxes().forEach(function (b) {
      b.checked = !!chosen[b.value];
      here[b.value] = true;
    });
    target.querySelectorAll('input[type=hidden]').forEach(function (h) { h.remove(); });
    var names = Object.keys(chosen);
    names.forEach(function (name) {
      if (here[name]) { return; }
      var h = document.createElement('input');
      h.type = 'hidden'; h.name = 'run'; h.value = name;
      target.appendChild(h);
    });
    var button = document.getElementById('compare-button');
    button.disabled = names.length < 2 || names.length > 6;
    button.textContent = names.length < 2 ? 'Select two to six runs to compare' : names.length > 6 ? names.length + ' selected: six at most' : 'Compare ' + names.length + ' runs';
  }

  function address() {
    var v = new URLSearchParams();
    new FormData(form).forEach(function (value, key) { if (value) { v.append(key, value); } });
    var q = v.toString();
    return form.getAttribute('action') + (q ? '?' + q : '');
  }

  // Where the focus is, to be found again in a list that was replaced.
  function place() {
    var a = document.activeElement;
    if (!a || !list().contains(a)) { return null; }
    if (a.id) { return '#' + CSS.escape(a.id); }
    if (a.name === 'run') { return 'input[value="' + CSS.escape(a.value) + '"]'; }
    if (a.getAttribute('href')) { return 'a[href="' + CSS.escape(a.getAttribute('href')) + '"]'; }
    return a.classList.contains('scroll') ? '.scroll' : null;
  }

  function show(url, push) {
    var mine = ++number;
    return fetch(url, { credentials: 'same-origin' }).then(function (r) { return r.text(); }).then(function (text) {
      if (mine !== number) { return; }
      var doc = new DOMParser().parseFromString(text, 'text/html');
      var fresh = doc.getElementById('list');
      if (!fresh) { location.assign(url); return; }
      var at = place();
      var old = list();
      var box = old.querySelector('.scroll');
      var left = box ? box.scrollLeft : 0;
      old.replaceWith(fresh);
      if (fresh.querySelector('.scroll')) { fresh.querySelector('.scroll').scrollLeft = left; }
      doc.querySelectorAll('form.search select').forEach(function (s) {
        var mineSelect = document.getElementById(s.id);
        if (!mineSelect || document.activeElement === mineSelect) { return; }
        var value = s.value; // moving its options would change what is selected
        mineSelect.replaceChildren.apply(mineSelect, [].map.call(s.options, function (o) { return o.cloneNode(true); }));
        mineSelect.value = value;
      });
      form.querySelector('.buttons').replaceWith(doc.querySelector('form.search .buttons'));
      if (push) { history.replaceState(null, '', url); }
      if (at && document.activeElement === document.body) {
        var again = fresh.querySelector(at);
        if (again) { again.focus(); }
      }
      compared();
    });
  }

  document.addEventListener('change', function (e) {
    if (e.target.name === 'run') {
      if (e.target.checked) { chosen[e.target.value] = true; } else { delete chosen[e.target.value]; }
      compared();
    } else if (form.contains(e.target)) { show(address(), true); }
  });
  var wait = 0;
  form.querySelector('#q').addEventListener('input', function () {
    clearTimeout(wait);
    wait = setTimeout(function () { show(address(), true); }, 200);
  });
  form.addEventListener('submit', function (e) {
    e.preventDefault();
    clearTimeout(wait);
    show(address(), true);
  });
  boxes().forEach(function (b) { if (b.checked) { chosen[b.value] = true; } }); // the browser went back to this page
  compared();

  // The list says when it has changed; a page that nobody sees does not ask.
  var source = null;
  function follow() {
    if (source || document.hidden) { return; }
    source = new EventSource('/events?version=' + encodeURIComponent(list().dataset.version));
    var live = document.getElementById('live');
    source.addEventListener('open', function () { live.hidden = false; });
    source.addEventListener('error', function () { live.hidden = true; });
    source.addEventListener('list', function (e) {
      if (JSON.parse(e.data) !== list().dataset.version) { show(location.pathname + location.search, false); }
    });
  }
  document.addEventListener('visibilitychange', function () {
    if (document.hidden && source) { source.close(); source = null; }
    follow();
  });
  window.addEventListener('pagehide', function () { if (source) { source.close(); source = null; } });
  window.addEventListener('pageshow', follow);
  follow();
})();
