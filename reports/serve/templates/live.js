(function () {
  'use strict';
  var summary = document.getElementById('summary');
  if (!summary.dataset.events) { return; }
  var byId = function (id) { return document.getElementById(id); };
  var rates = [], faults = {}, order = [], violations = 0, time = 0, last = +summary.dataset.after, over = false;

  var count = function (n) { return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, '\u202f'); };
  var clock = function (t) { return t.toFixed(1) + ' s'; };

  function log(t, kind, text) {
    var li = document.createElement('li');
    li.className = 'l-' + kind;
    var at = document.createElement('span'), what = document.createElement('span');
    at.className = 't'; at.textContent = clock(t);
    what.className = 'what'; what.textContent = text;
    li.append(at, what);
    var box = byId('log').parentNode;
    var atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    byId('log').append(li);
    if (atEnd) { box.scrollTop = box.scrollHeight; }
  }

  function stage(name) {
    var all = [].slice.call(document.querySelectorAll('#stages li'));
    var now = all.findIndex(function (li) { return li.dataset.stage === name; });
    if (now < 0) { // a phase that not every run has
      var li = document.createElement('li');
      li.dataset.stage = li.textContent = name;
      var before = all.find(function (x) { return x.dataset.stage === 'settle'; });
      before.before(li);
      return stage(name);
    }
    all.forEach(function (li, i) {
      li.className = i < now ? 'done' : i === now ? 'now' : 'next';
      if (i === now) { li.setAttribute('aria-current', 'step'); } else { li.removeAttribute('aria-current'); }
    });
  }

  // The curve, in the units of the drawing (1000 by 120); runview.go draws the same.
  function draw() {
    var end = Math.max(time, 1), top = 1;
    rates.forEach(function (r) { top = Math.max(top, r[1]); });
    byId('c-path').setAttribute('d', rates.map(function (r, i) {
      return (i ? 'L' : 'M') + (r[0] / end * 1000).toFixed(1) + ' ' + (120 - Math.max(r[1], 0) / top * 120).toFixed(1);
    }).join(''));
    byId('c-top').textContent = top.toFixed(0);
    byId('c-end').textContent = clock(end);
    var bands = byId('c-bands');
    bands.replaceChildren();
    order.forEach(function (id) {
      var f = faults[id], rect = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
      rect.setAttribute('class', 'cband');
      rect.setAttribute('x', (f.from / end * 1000).toFixed(1));
      rect.setAttribute('y', 0);
      rect.setAttribute('width', (Math.max((f.to || end) - f.from, 0) / end * 1000).toFixed(1));
      rect.setAttribute('height', 120);
      bands.append(rect);
    });
  }

  function tiles() {
    byId('t-time').textContent = clock(time);
    var proven = order.filter(function (id) { return faults[id].proven; }).length;
    byId('t-faults').textContent = proven + ' of ' + order.length;
    byId('t-violations').textContent = violations;
    byId('tile-violations').classList.toggle('alarm', violations > 0);
  }

  var on = {
    phase: function (e) { stage(e.phase); log(e.t, 'phase', e.phase); },
    step: function (e) { log(e.t, 'step', e.text); },
    problem: function (e) { log(e.t, 'problem', e.text); },
    checking: function (e) { stage('checking'); log(e.t, 'phase', 'checking the history'); },
    error: function (e) { log(e.t, 'error', e.text); },
    violation: function (e) {
      violations++;
      log(e.t, 'violation', e.violation.property + ': ' + e.violation.text);
    },
    verdict: function (e) { log(e.t, 'phase', e.verdict.verdict + '  ' + e.verdict.summary); },
    rates: function (e) {
      var r = e.rates;
      rates.push([e.t, r.cycles_per_s]);
      byId('t-cycles').textContent = count(r.cycles);
      byId('t-rate').textContent = r.cycles_per_s.toFixed(0) + '/s';
      byId('t-unknown').textContent = count(r.unknown);
      byId('t-refused').textContent = count(r.stale_refused);
      byId('t-lost').textContent = count(r.leases_lost);
      byId('active').replaceChildren.apply(byId('active'), (r.active || []).map(function (text) {
        var s = document.createElement('span');
        s.className = 'pill';
        s.textContent = text;
        return s;
      }));
    },
    fault: function (e) {
      var f = e.fault, label = f.name + (f.targets ? ' ' + f.targets.join(', ') : '');
      if (f.action === 'inject') {
        faults[f.id] = { from: e.t, to: 0, proven: false, judged: false };
        order.push(f.id);
        log(e.t, 'inject', f.id + ' injected: ' + label + (f.trigger ? ' (' + f.trigger + ')' : ''));
        return;
      }
      var known = faults[f.id];
      if (f.action === 'heal') {
        if (known) { known.to = e.t; }
        log(e.t, 'heal', f.id + ' healed: ' + label);
        return;
      }
      if (known) {
        known.proven = !!f.proven && (!known.judged || known.proven);
        known.judged = true;
      }
      log(e.t, f.proven ? 'proven' : 'problem', f.id + (f.proven ? ' proven: ' : ' not proven: ') + f.text);
    }
  };

  // All is told again from the first event, so that what is drawn is whole; the
  // server's own page is what is seen until then.
  var connection = byId('connection');
  var source = new EventSource(summary.dataset.events);
  var fresh = true;
  function take(kind) {
    source.addEventListener(kind, function (m) {
      if (!m.data) { return; } // the connection's own error event
      var e = JSON.parse(m.data);
      if (fresh) { byId('log').replaceChildren(); fresh = false; }
      last = e.seq;
      time = e.t;
      if (on[kind]) { on[kind](e); }
      later();
    });
  }
  ['run', 'step', 'phase', 'fault', 'rates', 'problem', 'violation', 'checking', 'verdict', 'end', 'error'].forEach(take);
  var planned = false;
  function later() {
    if (planned) { return; }
    planned = true;
    requestAnimationFrame(function () { planned = false; tiles(); draw(); });
  }
  source.addEventListener('open', function () { connection.textContent = 'Following the run'; });
  source.addEventListener('error', function (m) {
    // A run's own event of that name has data.
    if (!over && !m.data) { connection.textContent = source.readyState === EventSource.CLOSED ? 'Nothing follows' : 'The connection is lost; trying again'; }
  });
  source.addEventListener('over', function (m) {
    over = true;
    source.close();
    var why = JSON.parse(m.data);
    connection.textContent = why || 'The run is over';
    document.documentElement.dataset.over = 'yes';
    location.reload(); // the page of a run that is over has its verdict and its files
  });
  window.addEventListener('pagehide', function () { source.close(); });
})();
