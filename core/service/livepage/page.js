(function () {
  'use strict';
  var byId = function (id) { return document.getElementById(id); };
  var set = function (id, text) { var e = byId(id); if (e.textContent !== text) { e.textContent = text; } };
  var count = function (n) { return String(n).replace(/\B(?=(\d{3})+$)/g, '\u202f'); };
  var ms = function (n) { return n < 1000 ? n + ' ms' : n < 60000 ? (n / 1000).toFixed(1) + ' s' : Math.round(n / 60000) + ' min'; };
  var clock = function (t) { return new Date(t).toLocaleTimeString([], { hour12: false }); };
  // s1.1a2b3c4d is process s1 in its life 1a2b3c4d.
  var short = function (name) { return name.replace(/\.[0-9a-f]{8}$/, ''); };

  function make(tag, text, name) {
    var e = document.createElement(tag);
    if (text !== undefined) { e.textContent = text; }
    if (name) { e.className = name; }
    return e;
  }
  function row(cells) {
    var tr = make('tr');
    cells.forEach(function (c) { tr.append(c); });
    return tr;
  }
  var td = function (text, name) { return make('td', text, name); };

  byId('origin').textContent = location.origin;

  // Each name keeps its colour as long as the page is open; the text says it too.
  var colours = {}, used = 0;
  function colour(name) {
    if (!name) { return 'nobody'; }
    if (!(name in colours)) { colours[name] = 'c' + (used++ % 6); }
    return colours[name];
  }

  function now(v) {
    var ended = 0, last = v.seconds.slice(-10), late = 0, running = 0, unowned = 0, shards = 0;
    var total = function (s) { return s.completed + s.retried + s.dead + s.other; };
    last.forEach(function (s) { ended += total(s); });
    v.processes.forEach(function (p) { late = Math.max(late, p.late); running += p.running; });
    v.queues.forEach(function (q) { shards += q.owners.length; unowned += q.owners.filter(function (o) { return !o; }).length; });
    var state = function (name) { var n = (v.states || {})[name]; return n === undefined ? '–' : count(n.jobs) + (n.more ? ' or more' : ''); };
    set('n-rate', (ended / Math.max(1, last.length)).toFixed(1));
    set('n-running', count(running));
    set('n-pending', state('pending'));
    set('n-dlq', state('dlq'));
    set('n-late', ms(late));
    set('n-unowned', unowned + ' of ' + shards);
    byId('tile-unowned').classList.toggle('alarm', unowned > 0);
    byId('tile-late').classList.toggle('alarm', late > 4000);
    byId('tile-dlq').classList.toggle('alarm', ((v.states || {}).dlq || { jobs: 0 }).jobs > 0);

    var top = 1, ns = 'http://www.w3.org/2000/svg', bars = byId('c-bars');
    v.seconds.forEach(function (s) { top = Math.max(top, total(s)); });
    bars.replaceChildren();
    v.seconds.forEach(function (s, i) {
      var y = 100;
      [['b-ok', s.completed + s.other], ['b-bad', s.retried + s.dead]].forEach(function (part) {
        if (!part[1]) { return; }
        var r = document.createElementNS(ns, 'rect'), h = part[1] / top * 100;
        y -= h;
        r.setAttribute('class', part[0]);
        r.setAttribute('x', i * 10 + 1); r.setAttribute('width', 8);
        r.setAttribute('y', y.toFixed(1)); r.setAttribute('height', h.toFixed(1));
        bars.append(r);
      });
    });
    set('c-top', count(top));
  }

  function processes(v) {
    byId('processes').replaceChildren.apply(byId('processes'), v.processes.map(function (p) {
      var th = make('th', short(p.name));
      th.scope = 'row';
      th.title = p.name;
      if (p.name === v.self) { th.append(make('span', ' shows this page', 'here')); }
      if (p.unknown) {
        var why = make('td', 'Not known: ' + p.unknown, 'gone');
        why.colSpan = 7;
        return row([th, td(p.shards, 'n'), why]);
      }
      return row([th, td(p.shards, 'n'), td(count(p.running), 'n'), td(count(p.totals.enqueued), 'n'), td(count(p.totals.completed), 'n'),
        td(count(p.totals.retried), 'n'), td(count(p.totals.dead), 'n'), td(ms(p.late), 'n'), td(clock(p.since))]);
    }));
  }

  // A keyspace may have thousands of shards: those that somebody owns are then summed up.
  var listed = 256;
  function shards(v) {
    var box = byId('shards');
    box.replaceChildren();
    v.queues.forEach(function (q) {
      box.append(make('h3', 'Queue ' + q.name));
      var ul = make('ul', undefined, 'cells');
      if (q.owners.length > listed) {
        var by = {};
        q.owners.forEach(function (o) { by[o] = (by[o] || 0) + 1; });
        Object.keys(by).sort().forEach(function (o) { ul.append(make('li', (o ? short(o) : 'nobody') + ': ' + count(by[o]) + ' shards', colour(o))); });
      } else {
        q.owners.forEach(function (o, i) {
          var li = make('li', undefined, colour(o));
          li.append(make('b', i), ' ' + (o ? short(o) : 'nobody'));
          ul.append(li);
        });
      }
      box.append(ul);
    });
  }

  function runs(v) {
    if (!v.runs || !v.runs.length) { return; }
    byId('runs').replaceChildren.apply(byId('runs'), v.runs.map(function (r) {
      var job = td(undefined, 'mono'), a = make('a', r.job.length > 20 ? r.job.slice(0, 20) + '…' : r.job);
      a.href = 'jobs/' + encodeURIComponent(r.job) + '?queue=' + encodeURIComponent(r.queue);
      a.title = r.job;
      job.append(a);
      return row([td(clock(r.ended)), job, td(r.queue), td(r.outcome, 'o-' + r.outcome), td(r.attempt, 'n'), td(ms(r.late), 'n'), td(ms(r.took), 'n'), td(short(r.by)), td(r.error || '', 'err')]);
    }));
  }

  var connection = byId('connection'), source = new EventSource('live/events');
  source.addEventListener('view', function (m) {
    var v = JSON.parse(m.data), problems = byId('problems');
    problems.hidden = !(v.problems && v.problems.length);
    problems.replaceChildren.apply(problems, (v.problems || []).map(function (text) { return make('li', text); }));
    v.queues = v.queues || [];
    now(v); processes(v); shards(v); runs(v);
    if (connection.className !== 'on') { connection.className = 'on'; connection.textContent = 'Live'; }
  });
  source.addEventListener('error', function () {
    connection.className = '';
    connection.textContent = source.readyState === EventSource.CLOSED ? 'The process does not answer: load the page again' : 'The connection is lost; trying again';
  });
  window.addEventListener('pagehide', function () { source.close(); });
})();
