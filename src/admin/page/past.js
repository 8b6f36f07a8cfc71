// The last ten minutes: numbers per second, in rings of a fixed size.

const SECONDS = 600;

class Ring {
  constructor(width) {
    this.width = width;
    this.numbers = new Float64Array(SECONDS * width);
    this.first = Infinity;
    this.last = -1;
    this.used = -Infinity; // the last second with a number other than 0
  }

  put(second, values) {
    const at = (second % SECONDS) * this.width;
    let sum = 0;
    for (let i = 0; i < this.width; ++i) sum += this.numbers[at + i] = values[i] ?? 0;
    this.first = Math.min(this.first, second);
    this.last = second;
    if (sum) this.used = second;
  }

  at(second, field) {
    return this.numbers[(second % SECONDS) * this.width + field];
  }
  begin() {
    return Math.max(this.first, this.last - SECONDS + 1);
  }

  // The sum of some fields in the last seconds.
  sum(fields, seconds = SECONDS) {
    let n = 0;
    if (this.used <= this.last - seconds) return n;
    for (let s = Math.max(this.begin(), this.last - seconds + 1); s <= this.last; ++s)
      for (const f of fields) n += this.at(s, f);
    return n;
  }

  rate(fields, seconds = 10) {
    return this.last < 0 ? 0 : this.sum(fields, seconds) / Math.min(seconds, this.last - this.begin() + 1);
  }

  // The values of each series in columns of `step` seconds: the highest of the seconds, or their mean.
  columns({from, to, step}, series) {
    const found = [];
    for (let c = from; c <= to; c += step) {
      const values = series.map(() => 0),
        a = Math.max(c, this.begin()),
        b = Math.min(c + step - 1, this.last);
      if (b < a) continue;
      if (this.used > this.last - SECONDS)
        for (let s = a; s <= b; ++s)
          series.forEach((one, i) => {
            let n = 0;
            for (const f of one.of) n += this.at(s, f);
            values[i] = one.highest ? Math.max(values[i], n) : values[i] + n;
          });
      found.push({
        at: c,
        values: values.map((n, i) => (series[i].highest ? n : n / (b - a + 1)) * (series[i].unit ?? 1))
      });
    }
    return found;
  }
}

// The fields of a second, in the order of the proxy. Durations are in µs.
const ALL = {ok: 0, redirected: 1, s4: 2, s5: 3, rejected: 4, p50: 5, p99: 6, active: 7, waiting: 8},
  ALL_WIDTH = 9;
const REQUESTS = [ALL.ok, ALL.redirected, ALL.s4, ALL.s5, ALL.rejected];
const LIMIT = {atOnce: 0, later: 1, waiting: 2, inUse: 3, reasons: 4, p99: 14},
  LIMIT_WIDTH = 15;
const SERVER = {responses: 0, errors: 1, p99: 2, active: 3},
  SERVER_WIDTH = 4;
const GRANTED = [LIMIT.atOnce, LIMIT.later];
// The reasons of rejections in the order of the proxy, and the words after "because". A client that disconnected was
// not rejected.
const REASONS = {
  no_permit: 'requests do not wait there',
  queue_full: 'its queue is full',
  timed_out: 'they timed out',
  deadline_unreachable: 'they would wait too long',
  shed: 'its queue drops old requests',
  unavailable: 'its store is unavailable',
  too_many_keys: 'its table of keys is full',
  exceeds_capacity: 'they cost more than it can grant',
  disconnected: 'the client disconnected',
  closed: 'it is closed'
};
const DISCONNECTED = LIMIT.reasons + Object.keys(REASONS).indexOf('disconnected');
const REJECTED = Object.keys(REASONS)
  .map((_, i) => LIMIT.reasons + i)
  .filter(field => field !== DISCONNECTED);

const past = {all: new Ring(ALL_WIDTH), limits: new Map(), servers: new Map()};
let second = 0; // of the last point, since the start of the proxy
let base = 0; // the clock at second 0, in ms
let stats = null; // the last state
const clockAt = (s, withSeconds) => clock(base + s * 1000, withSeconds);
const ringOf = (map, key, width) => map.get(key) ?? new Ring(width);

// Adds the points of an event.
function note(event) {
  second = event.second;
  const fill = (ring, points) => points.forEach((p, i) => ring.put(second - points.length + 1 + i, p));
  const fillAll = (map, lists, keyOf, width) => {
    for (const [name, points] of Object.entries(lists)) {
      const key = keyOf(name);
      if (!map.has(key)) map.set(key, new Ring(width));
      fill(map.get(key), points);
    }
    for (const key of map.keys()) if (!(key in lists)) map.delete(key);
  };
  fill(past.all, event.all);
  fillAll(past.limits, event.limits, Number, LIMIT_WIDTH);
  fillAll(past.servers, event.servers, name => name, SERVER_WIDTH);
}

function forget() {
  past.all = new Ring(ALL_WIDTH);
  past.limits.clear();
  past.servers.clear();
}
