// The time line's data: decoded, filtered, packed into lanes, counted. Knows no DOM.
// All times are µs of the run.
var timelineData = (function () {
  'use strict';

  function bytes(base64) {
    var raw = atob(base64 || '');
    var out = new Uint8Array(raw.length);
    for (var i = 0; i < raw.length; i++) { out[i] = raw.charCodeAt(i); }
    return out;
  }

  // Numbers may have more than 32 bits: no shifts.
  function unsigned(base64, n) {
    var b = bytes(base64), out = new Float64Array(n), at = 0;
    for (var i = 0; i < n; i++) {
      var v = 0, scale = 1;
      for (;;) {
        var x = b[at++];
        v += (x & 127) * scale;
        if (x < 128) { break; }
        scale *= 128;
      }
      out[i] = v;
    }
    return out;
  }

  function signed(base64, n) {
    var out = unsigned(base64, n);
    for (var i = 0; i < n; i++) { out[i] = out[i] % 2 ? -(out[i] + 1) / 2 : out[i] / 2; }
    return out;
  }

  function sum(col) {
    for (var i = 1; i < col.length; i++) { col[i] += col[i - 1]; }
    return col;
  }

  var life = function (proc) { return proc.split('/')[0]; };

  function decode(raw) {
    var n = raw.ops.n, o = raw.ops;
    var ops = {
      n: n, at: sum(signed(o.at, n)), end: new Float64Array(n), ended: new Uint8Array(n), kind: unsigned(o.kind, n),
      outcome: unsigned(o.outcome, n), proc: unsigned(o.proc, n), lane: unsigned(o.lane, n), name: unsigned(o.name, n),
      token: unsigned(o.token, n), say: unsigned(o.say, n), line: signed(o.line, n), endLine: unsigned(o.end_line, n)
    };
    var crash = {};
    raw.marks.forEach(function (m) { if (m.name === 'crash') { crash[life(m.proc)] = m.at; } });
    var dur = unsigned(o.dur, n), before = {};
    for (var i = 0; i < n; i++) {
      ops.lane[i]--;
      ops.name[i]--;
      ops.ended[i] = dur[i] > 0 ? 1 : 0;
      if (ops.ended[i]) {
        ops.end[i] = ops.at[i] + dur[i] - 1;
      } else { // nobody has seen it after its process's end
        var gone = crash[life(raw.procs[ops.proc[i]].name)];
        ops.end[i] = gone > ops.at[i] ? gone : raw.end;
      }
      var file = raw.procs[ops.proc[i]].file;
      ops.line[i] += before[file] || 0;
      before[file] = ops.line[i];
      ops.endLine[i] += ops.endLine[i] ? ops.line[i] : 0;
    }
    var h = raw.holds, m = h.n;
    var holds = {
      n: m, lane: unsigned(h.lane, m), proc: unsigned(h.proc, m), token: unsigned(h.token, m), from: sum(signed(h.from, m)),
      to: unsigned(h.to, m), row: signed(h.row, m), ended: unsigned(h.ended, m), flags: unsigned(h.flags, m)
    };
    for (i = 0; i < m; i++) {
      holds.to[i] += holds.from[i];
      holds.row[i] += holds.to[i];
    }
    // A process's end shows in the lanes of what it held.
    raw.marks.forEach(function (k) {
      k.lanes = k.lane < 0 ? {} : { [k.lane]: 1 };
      for (var i = 0; i < m && k.lane < 0; i++) {
        if (holds.from[i] <= k.at && holds.row[i] >= k.at && life(raw.procs[holds.proc[i]].name) === life(k.proc)) { k.lanes[holds.lane[i]] = 1; }
      }
    });
    var inViolation = new Uint8Array(n);
    raw.violations.forEach(function (v) { v.events.forEach(function (e) { if (e.op >= 0) { inViolation[e.op] = 1; } }); });
    return { raw: raw, end: raw.end, ops: ops, holds: holds, inViolation: inViolation };
  }

  // filter says which operations are shown. f: lane, worker (-1: all), kinds and
  // outcomes (a flag each), violations (only theirs); always are those in extra.
  function filter(m, f, extra) {
    var o = m.ops, procs = m.raw.procs, shown = new Uint8Array(o.n), n = 0;
    for (var i = 0; i < o.n; i++) {
      if (extra && extra[i] !== undefined ||
        (f.lane < 0 || o.lane[i] === f.lane) && (f.worker < 0 || procs[o.proc[i]].worker === f.worker) &&
        f.kinds[o.kind[i]] && f.outcomes[o.outcome[i]] && (!f.violations || m.inViolation[i])) {
        shown[i] = 1;
        n++;
      }
    }
    return { shown: shown, n: n };
  }

  var maxRows = 12;

  // pack puts what is shown into lanes: of rows ("row") or of processes ("proc"). The
  // operations of a lane that overlap go to rows of their own, as far as there are any.
  function pack(m, f, shown, by) {
    var o = m.ops, h = m.holds, procs = m.raw.procs, i;
    var names, laneOfOp, laneOfHold;
    if (by === 'row') {
      names = m.raw.lanes;
      laneOfOp = function (i) { return o.lane[i]; };
      laneOfHold = function (i) { return h.lane[i]; };
    } else {
      names = [];
      // Clients of one process share a lane if there are too many.
      var short = procs.length > 48, at = {};
      var laneOf = procs.map(function (p) {
        var name = short ? life(p.name) : p.name;
        if (at[name] === undefined) { at[name] = names.push(name) - 1; }
        return at[name];
      });
      laneOfOp = function (i) { return laneOf[o.proc[i]]; };
      laneOfHold = function (i) { return laneOf[h.proc[i]]; };
    }
    var lanes = names.map(function (name, k) { return { name: name, id: k, holds: [], rows: [], marked: 0 }; });
    var row = new Int8Array(o.n), ends = lanes.map(function () { return []; });
    for (i = 0; i < o.n; i++) {
      var k = shown[i] ? laneOfOp(i) : -1;
      if (k < 0) { continue; }
      var e = ends[k], r = 0;
      while (r < e.length && e[r] > o.at[i]) { r++; }
      if (r >= maxRows) { r = maxRows - 1; }
      e[r] = Math.max(e[r] || 0, o.end[i]);
      row[i] = r;
      if (!lanes[k].rows[r]) { lanes[k].rows[r] = { ops: [], until: [] }; }
      var to = lanes[k].rows[r];
      to.ops.push(i);
      to.until.push(e[r]); // the latest end so far: rises, so it can be searched
      if (m.inViolation[i]) { lanes[k].marked = 1; }
    }
    for (i = 0; i < h.n; i++) {
      if ((f.lane < 0 || h.lane[i] === f.lane) && (f.worker < 0 || procs[h.proc[i]].worker === f.worker)) {
        lanes[laneOfHold(i)].holds.push(i);
      }
    }
    lanes = lanes.filter(function (l) { return l.rows.length || l.holds.length && !f.violations; });
    if (lanes.length > 12) { // what is looked for comes first
      lanes.sort(function (a, b) { return b.marked - a.marked || a.id - b.id; });
    }
    return lanes;
  }

  // first is the place of the first value in the rising list that is above v.
  function first(list, v) {
    var a = 0, b = list.length;
    while (a < b) {
      var c = (a + b) >> 1;
      if (list[c] > v) { b = c; } else { a = c + 1; }
    }
    return a;
  }

  // step is the width of a bucket for a stretch of time.
  function step(span) {
    var want = Math.max(span / 140, 5e4), s = 5e4;
    for (var i = 0; s < want; i++) { s *= i % 3 === 1 ? 2.5 : 2; } // 50 ms, 100, 250, 500 …
    return s;
  }

  function buckets(from, to) {
    var w = step(to - from), a = Math.floor(from / w) * w, n = Math.ceil((to - a) / w) + 1;
    return { width: w, from: a, n: n };
  }

  // rates counts the ends a second by outcome.
  function rates(m, shown, from, to) {
    var b = buckets(from, to), o = m.ops;
    var out = [0, 1, 2].map(function () { return new Float64Array(b.n); });
    for (var i = 0; i < o.n; i++) {
      if (!shown[i]) { continue; }
      var k = Math.floor((o.end[i] - b.from) / b.width);
      if (k >= 0 && k < b.n) { out[o.outcome[i]][k] += 1e6 / b.width; }
    }
    return { width: b.width, from: b.from, n: b.n, by: out };
  }

  // latencies has p50 and p99 in seconds of the ok operations of a kind, by when they ended.
  function latencies(m, f, kind, from, to) {
    var b = buckets(from, to), o = m.ops, procs = m.raw.procs, all = [];
    for (var i = 0; i < o.n; i++) {
      if (o.kind[i] !== kind || o.outcome[i] !== 0 || f.lane >= 0 && o.lane[i] !== f.lane || f.worker >= 0 && procs[o.proc[i]].worker !== f.worker) { continue; }
      var k = Math.floor((o.end[i] - b.from) / b.width);
      if (k >= 0 && k < b.n) { (all[k] = all[k] || []).push((o.end[i] - o.at[i]) / 1e6); }
    }
    var p50 = [], p99 = [], count = [];
    for (k = 0; k < b.n; k++) {
      var l = all[k];
      if (l) { l.sort(function (x, y) { return x - y; }); }
      p50.push(l ? Math.max(l[Math.ceil(l.length * 0.5) - 1], 1e-6) : null);
      p99.push(l ? Math.max(l[Math.ceil(l.length * 0.99) - 1], 1e-6) : null);
      count.push(l ? l.length : 0);
    }
    return { width: b.width, from: b.from, n: b.n, p50: p50, p99: p99, count: count };
  }

  function token(t) {
    return t >= 4294967296 ? Math.floor(t / 4294967296) + '/' + t % 4294967296 : String(t);
  }

  function duration(us) {
    var abs = Math.abs(us);
    if (abs < 1000) { return us + ' µs'; }
    if (abs < 1e6) { return +(us / 1000).toPrecision(3) + ' ms'; }
    return (abs < 1e8 ? +(us / 1e6).toPrecision(3) : Math.round(us / 1e6)) + ' s';
  }

  return { decode: decode, filter: filter, pack: pack, first: first, rates: rates, latencies: latencies, token: token, duration: duration, life: life };
})();
