// The sentence that says what hurts now, and the signals of all requests.

const MINUTE = 60;
const nameOf = limit => limit.name;

// The limits and upstreams that hurt, the worst first.
function problems() {
  const found = [];
  for (const u of stats.upstreams) {
    const down = u.servers.filter(s => s.down);
    if (!down.length) continue;
    const since = Math.min(...down.map(s => Date.parse(s.down_since ?? stats.now)));
    found.push({upstream: u, down: down.length, since, weight: down.length === u.servers.length ? Infinity : 0});
  }
  for (const limit of stats.limits) {
    if (!limit.since) continue;
    const {granted, rejected, p99_wait: wait} = limit.last_minute;
    found.push({
      limit,
      since: Date.parse(limit.since),
      rejected,
      asked: granted + rejected,
      wait,
      weight: 1 + rejected * 10 + limit.waiting
    });
  }
  return found.sort((a, b) => b.weight - a.weight);
}

// The most frequent reason of the last minute.
function causeOf(limit) {
  const ring = ringOf(past.limits, limit.id, LIMIT_WIDTH);
  let most = 0,
    cause = '';
  Object.values(REASONS).forEach((text, i) => {
    const field = LIMIT.reasons + i,
      n = field === DISCONNECTED ? 0 : ring.sum([field], MINUTE);
    if (n > most) [most, cause] = [n, text];
  });
  return cause;
}

function linkTo(problem) {
  const button = make('button', {class: 'plain'}, problem.limit ? nameOf(problem.limit) : problem.upstream.name);
  button.addEventListener('click', () => {
    if (problem.limit) openRow(problem.limit.id);
    else $('servers').scrollIntoView();
  });
  return button;
}

const sinceText = since => ` since ${clock(since, true)} (${span(Math.max(0, Date.parse(stats.now) - since) / 1000)})`;
const rejectedText = (n, asked) =>
  `${n ? grouped(n) : 'none'} of ${plural(asked, 'request')} rejected in the last minute`;

function upstreamSentence(problem) {
  const down = problem.down;
  const all = problem.upstream.servers.length;
  let subject = `${down} of ${all} servers of `;
  if (down === all) subject = all === 1 ? 'The server of ' : 'All servers of ';
  return [subject, linkTo(problem), ` ${down === 1 ? 'is' : 'are'} down${sinceText(problem.since)}.`];
}

function ruleText(limit) {
  if (limit.seats && limit.capacity !== undefined)
    return `${grouped(limit.in_use)} of ${plural(limit.capacity, 'seat')} in use`;
  return limit.key === 'total' ? limit.rule : `${limit.rule} for each ${limit.key}`;
}

// What the limit does, since when, what that costs, and why.
function sentenceOf(problem) {
  if (problem.upstream) return upstreamSentence(problem);
  const {limit, rejected, asked, wait} = problem;
  const cause = rejected ? causeOf(limit) : '';
  const costs = [];
  if (asked) costs.push(rejectedText(rejected, asked) + (cause ? ` because ${cause}` : ''));
  if (limit.waiting) costs.push(`${grouped(limit.waiting)} waiting now`);
  if (wait) costs.push(`p99 wait ${time(wait)}`);
  const does = rejected ? 'rejects requests' : 'delays requests';
  return [linkTo(problem), ` (${ruleText(limit)}) ${does}${sinceText(problem.since)}: ${costs.join('; ')}.`];
}

function calmSentence() {
  if (!stats.limits.length) return 'There are no limits.';
  const asked = past.all.sum(REQUESTS, MINUTE);
  const rejected = past.all.sum([ALL.rejected], MINUTE);
  const nearest = stats.limits.filter(l => l.use > 0 && !l.dry_run).sort((a, b) => b.use - a.use)[0];
  const near = nearest
    ? ` Nearest to its limit: ${nameOf(nearest)}, ${percent(nearest.use)} of ${nearest.rule} in use.`
    : '';
  const cost = asked ? rejectedText(rejected, asked) : 'no requests in the last minute';
  return `No limit is delaying requests: ${cost}.${near}`;
}

// The larger rule that would help the worst limit. The proxy finds it from the recent requests, which takes no longer
// than a preview.
const HELP_EVERY = 30000; // ms
const help = {limit: null, at: 0, text: [], asking: false};

// The proxy makes one preview at a time, and rejects another one meanwhile.
let lastPreview = Promise.resolve();
function inTurn(ask) {
  lastPreview = lastPreview.then(ask, ask);
  return lastPreview;
}

function helpText(limit, {seconds, requests, now, then}) {
  if (!now.rejected) return [];
  const rule = make('button', {class: 'plain'}, then.rule);
  rule.addEventListener('click', () => {
    openRow(limit.id);
    rows.get(limit.id)?.detail?.change?.propose(then.rule);
  });
  const left = then.rejected ? grouped(then.rejected) : 'none';
  const all = `${left} of ${plural(requests, 'request')} in the last ${span(seconds)}`;
  return ['With ', rule, ` it would have rejected ${all} instead of ${grouped(now.rejected)}.`];
}

async function askForHelp(limit) {
  try {
    const headers = {'Content-Type': 'text/plain'};
    const path = `limits/${encodeURIComponent(limit.name)}/preview`;
    const answer = await inTurn(() => fetch(path, {method: 'POST', headers}));
    if (help.limit === limit.id) help.text = answer.ok ? helpText(limit, await answer.json()) : [];
  } catch {
    help.text = []; // the proxy does not respond, as the page shows
  }
  help.asking = false;
}

function renderHelp(worst) {
  const limit = worst?.rejected && worst.limit.previewable ? worst.limit : null;
  if (limit?.id !== help.limit) Object.assign(help, {limit: limit?.id, at: 0, text: []});
  if (limit && !help.asking && Date.now() >= help.at + HELP_EVERY) {
    help.at = Date.now();
    help.asking = true;
    askForHelp(limit);
  }
  $('help').replaceChildren(...help.text);
}

let announced = '';

// Nothing below moves while the pointer is there: the sentence keeps its height.
document.querySelector('main').addEventListener('pointerenter', () => {
  const box = $('now');
  box.style.height = `${box.offsetHeight}px`;
  box.style.overflow = 'auto';
});
document.querySelector('main').addEventListener('pointerleave', () => {
  $('now').style.height = $('now').style.overflow = '';
});

function renderNow() {
  const box = $('now');
  if (box.matches(':hover') || box.contains(document.activeElement)) return; // what is pointed at stays
  const [worst, ...others] = stats.draining ? [] : problems();
  let level = stats.draining || worst ? 'warn' : 'good';
  if (worst?.rejected || worst?.upstream) level = 'bad';
  set(box, 'class', level);
  let text = ['The proxy is shutting down and accepts no new connections.'];
  if (!stats.draining) text = worst ? sentenceOf(worst) : [calmSentence()];
  $('sentence').replaceChildren(
    make('span', {class: level, 'aria-hidden': 'true'}, {good: '✓ ', warn: '◆ ', bad: '▲ '}[level]),
    ...text
  );
  renderHelp(worst);
  const further = others.length > 1 ? ` And ${others.length - 1} more at the top of the table.` : '';
  $('also').replaceChildren(...(others.length ? ['Also: ', ...sentenceOf(others[0]), further] : []));
  const subject = worst?.limit ? nameOf(worst.limit) : worst?.upstream.name;
  document.title = worst ? `▲ ${subject} – weir-proxy` : 'weir-proxy';
  const key = JSON.stringify([worst, ...others].map(p => [p?.limit?.id, p?.upstream?.name, p?.rejected > 0]));
  if (key === announced) return; // announced again only if something else hurts
  announced = key;
  show($('say'), $('sentence').textContent);
}

function makeSignals() {
  const ring = () => past.all,
    highest = true,
    unit = 1e-6;
  const rejected = {name: 'rejected', of: [ALL.rejected], hatch: true},
    errors = {name: '5xx', of: [ALL.s5], colour: 's5'};
  const all = () => ring().rate(REQUESTS),
    bad = () => ring().rate([ALL.s5, ALL.rejected]);
  const signals = [
    new Plot(
      'Requests/s',
      [
        {name: '2xx, 3xx', of: [ALL.ok, ALL.redirected], colour: 'served'},
        {name: '4xx', of: [ALL.s4], colour: 's4'},
        errors,
        rejected
      ],
      {stacked: true, ring, big: () => rate(all())}
    ),
    new Plot('Errors/s', [errors, rejected], {
      stacked: true,
      ring,
      big: () => `${rate(bad())}, ${percent(all() ? bad() / all() : 0)}`
    }),
    new Plot(
      'Response time',
      [
        {name: 'p99', of: [ALL.p99], highest, unit, colour: 'served'},
        {name: 'p50', of: [ALL.p50], highest, unit, colour: 'waited', dash: true}
      ],
      {
        ring,
        format: time,
        big: () => (stats.recent_response_times.count ? `p99 ${time(stats.recent_response_times.p99)}` : '')
      }
    ),
    new Plot(
      'Active and waiting',
      [
        {name: 'active', of: [ALL.active], highest, colour: 'served'},
        {name: 'waiting', of: [ALL.waiting], highest, colour: 'rejected', dash: true}
      ],
      {ring, format: grouped, big: () => grouped(stats.active)}
    )
  ];
  $('signals').replaceChildren(...signals.map(p => p.figure));
}
