// The servers of the upstreams: a table.

const SERVER_COLUMNS = [
  ['State', 'l', 128],
  ['Server', 'l'],
  ['Active', 'l', 124],
  ['Ten minutes', 'l', 120],
  ['Responses/s', '', 94],
  ['5xx/s', '', 68],
  ['p50', '', 72],
  ['p99', '', 72],
  ['Connect failures', 'w3', 120],
  ['Connections', 'w3', 100]
];
const serverRows = new Map();
const keyOf = (upstream, server) => `${upstream.name}\n${server.name}`;

class ServerRow {
  constructor() {
    Object.assign(this, {
      icon: make('span', {'aria-hidden': 'true'}),
      word: make('span'),
      meter: new Meter(),
      spark: new Spark()
    });
    const classes = ['l p', 'l p name', 'l p meters', 'l p', 'p', '', '', '', 'w3', 'w3'];
    const first = [[this.icon, ' ', this.word], [], this.meter.parts, [this.spark.svg]];
    this.cells = classes.map((cls, i) =>
      make('td', {class: cls, ...(i === 4 ? {'data-label': ' /s'} : {})}, ...(first[i] ?? []))
    );
    this.body = make('tbody', {'data-server': ''}, make('tr', {class: 'row'}, ...this.cells));
  }

  update([upstream, server]) {
    const ring = ringOf(past.servers, keyOf(upstream, server), SERVER_WIDTH),
      recent = server.recent_response_times;
    show(this.icon, server.down ? '▲' : '●');
    set(this.icon, 'class', server.down ? 'bad' : 'good');
    const since = server.down_since
      ? ` ${span(Math.max(0, Date.parse(stats.now) - Date.parse(server.down_since)) / 1000)}`
      : '';
    show(this.word, server.down ? `down${since}` : upstream.checked ? 'up' : 'not checked');
    const active = server.active === undefined ? '–' : grouped(server.active);
    this.meter.update(
      server.seats === undefined ? undefined : server.active / server.seats,
      server.seats === undefined ? active : `${active}/${grouped(server.seats)}`
    );
    this.spark.draw(ring, [SERVER.responses], [SERVER.errors], `responses of ${server.name}`);
    const texts = {
      1: `${upstream.name} · ${server.name}`,
      4: rate(ring.rate([SERVER.responses])),
      5: rate(ring.rate([SERVER.errors])),
      6: recent.count ? time(recent.p50) : '–',
      7: recent.count ? time(recent.p99) : '–',
      8: grouped(server.connect_failures),
      9: grouped(server.connections)
    };
    for (const [i, text] of Object.entries(texts)) show(this.cells[i], text);
  }
}
