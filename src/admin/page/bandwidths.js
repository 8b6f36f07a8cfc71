// The limits of bytes: a table with a row for each direction.

const BANDWIDTH_COLUMNS = [
  ['Direction', 'l', 112],
  ['Limit', 'l'],
  ['Rate', 'l', 200],
  ['Key', 'l', 200],
  ['Passed', '', 120],
  ['Waiting', '', 100],
  ['Waited', '', 130]
];
const bandwidthRows = new Map();

class BandwidthRow {
  constructor() {
    const classes = ['l p', 'l p name', 'l p', 'l', 'p', 'p', ''];
    this.cells = classes.map((cls, i) => make('td', {class: cls, ...(i === 5 ? {'data-label': ' waiting'} : {})}));
    this.body = make('tbody', {}, make('tr', {class: 'row'}, ...this.cells));
  }

  update(b) {
    const texts = [
      b.direction === 'up' ? 'from clients' : 'to clients',
      b.name,
      b.dry_run ? `${b.rate} (dry run)` : b.rate,
      b.keys === undefined ? b.key : `${b.key} (${grouped(b.keys)})`,
      size(b.bytes),
      grouped(b.waiting),
      b.dry_run ? `${size(b.late)} would wait` : time(b.waited_total)
    ];
    texts.forEach((text, i) => show(this.cells[i], text));
  }
}
