import { formatCount, formatMB, formatMs, median, percentile } from './figures.ts';
import type { Row } from './report.ts';
import type { WebSpeed } from './web-speed.ts';

/** The budget of the web interface. Times are milliseconds, sizes bytes. */
const BUDGET = {
  script: 60_000,
  mailScript: 42_000,
  style: 10_000,
  firstPaint: 200,
  ready: 350,
  key: 50,
  frame: 8,
  rows: 60,
  open: 80,
  dashboard: 150,
  memory: 150e6,
} as const;

/** The table of the web interface: each figure against its budget. */
export function webRows(speed: WebSpeed): Row[] {
  const of = formatCount(speed.messages);
  const row = (
    work: string,
    mailkeep: string,
    value: number,
    most: number,
    target: string,
  ): Row => ({
    work,
    peers: '',
    mailkeep,
    ratio: value / most,
    met: value <= most,
    target: `<= ${target}`,
  });
  const bytes = (work: string, value: number, most: number): Row =>
    row(work, `${formatCount(value)} B gzip`, value, most, `${formatCount(most)} B`);
  const late = (work: string, times: readonly number[], most: number): Row =>
    row(
      work,
      `p50 ${formatMs(median(times))}, p95 ${formatMs(percentile(times, 95))}`,
      percentile(times, 95),
      most,
      `${most} ms (p95)`,
    );
  const usual = (work: string, times: readonly number[], most: number): Row =>
    row(work, formatMs(median(times)), median(times), most, `${most} ms`);
  const memory = speed.peakBytes - speed.idleBytes;
  return [
    bytes('Scripts, all', speed.scriptBytes, BUDGET.script),
    bytes('Scripts of mail', speed.mailScriptBytes, BUDGET.mailScript),
    bytes('Styles of mail', speed.styleBytes, BUDGET.style),
    usual(`First paint, cold browser, ${of} messages`, speed.firstPaintMs, BUDGET.firstPaint),
    usual('Interactive', speed.readyMs, BUDGET.ready),
    late('Key to rows', speed.keyMs, BUDGET.key),
    late('Script in a frame while scrolling', speed.scrolling.frames, BUDGET.frame),
    late('Script in a frame while dragging the timeline', speed.dragging.frames, BUDGET.frame),
    row('Rows in the document', formatCount(speed.rows), speed.rows, BUDGET.rows, '60'),
    late('Opening a message', speed.openMs, BUDGET.open),
    usual('Dashboard, all data', speed.dashboardMs, BUDGET.dashboard),
    row(
      'Memory of the server above the idle process',
      formatMB(memory),
      memory,
      BUDGET.memory,
      formatMB(BUDGET.memory),
    ),
  ];
}
