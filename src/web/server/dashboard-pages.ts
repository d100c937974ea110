import type { ChartFilter } from '../../catalog/stats/chart-filter.ts';
import { readState } from '../../state/state-file.ts';
import type { DashboardContent } from '../pages/page.ts';
import { type DashboardView, dashboardData } from '../reading/dashboard/dashboard.ts';
import { RANGES } from '../reading/dashboard/periods.ts';
import { knownZone } from '../reading/known-zone.ts';
import { mailboxText } from '../reading/query-text.ts';
import type { ServedReader } from '../reading/served-archive.ts';
import { understandQuery } from '../reading/understood-query.ts';
import type { Answered, MailPages } from './mail-pages.ts';
import type { ArchiveParts, Parameter } from './request-context.ts';

/** Mailboxes that have a link of their own. */
const MOST_MAILBOXES = 8;

/**
 * Makes the page of charts. It shows what a query finds that names mailboxes and accounts only: the sums that are kept
 * know no other filter, and no past.
 */
export function dashboardPage(
  reader: ServedReader,
  pages: Pick<MailPages, 'frame'>,
  { accounts, now }: Pick<ArchiveParts, 'accounts' | 'now'>,
  parameter: Parameter,
): Answered {
  const { catalog, dataDir } = reader;
  const query = parameter('q') ?? '';
  const at = now();
  const understood = understandQuery(query, reader, at, accounts);
  const typed = parameter('tz');
  const zone = knownZone(typed);
  const range = RANGES.find((known) => known === parameter('range')) ?? null;
  const { request, asOf, problem } = understood;
  const filter =
    request === null || asOf !== null
      ? undefined
      : catalog.charts.filterOf(request.node, request.accounts ?? new Map());
  const text = query.trim();
  const base = request?.node.kind === 'or' && /\s/.test(text) ? `(${text})` : text;
  const narrow = (...terms: readonly string[]): string =>
    [base, ...terms].filter((term) => term !== '').join(' ');
  const known = catalog.folders.mailboxes();
  const frame = pages.frame(reader, query, { asOf, problem });
  const view = (shown: ChartFilter): DashboardView => ({
    ...{ filter: shown, narrow, range, zone: zone ?? null },
    whole: frame.closing,
  });
  const state = filter === undefined ? undefined : readState(dataDir);
  try {
    const reached = catalog.reached().number;
    const content: DashboardContent = {
      now: at,
      zone: zone ?? ownZone(),
      typedZone: zone ?? null,
      wrongZone: typed !== undefined && typed !== '' && zone === undefined ? typed : null,
      range,
      base,
      commit: { number: reached, time: catalog.commitAt(Number.MAX_SAFE_INTEGER)?.time ?? null },
      mailboxes: known.slice(0, MOST_MAILBOXES).map((mailbox) => ({
        name: mailbox.address.split('@', 1)[0] ?? mailbox.address,
        query: mailboxText([mailbox]),
      })),
      data: filter === undefined ? null : dashboardData(reader, state, view(filter), at),
    };
    return {
      page: { kind: 'dashboard', frame, ...content },
      status: problem === null ? 200 : 400,
    };
  } finally {
    state?.close();
  }
}

function ownZone(): string {
  return new Intl.DateTimeFormat('en').resolvedOptions().timeZone;
}
