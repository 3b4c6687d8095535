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
