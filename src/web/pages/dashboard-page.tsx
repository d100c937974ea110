import type { VNode } from 'preact';
import { count, counted, span } from '../../wording/amounts.ts';
import { closingEquation } from '../../wording/closing-sum.ts';
import type { Closing } from '../reading/dashboard/dashboard-data.ts';
import { RANGES, type Range, timeText } from '../reading/dashboard/periods.ts';
import { pageAddress } from '../reading/query-text.ts';
import { Textures } from './charts/plot.tsx';
import {
  CorrespondentsPanel,
  QuarantinePanel,
  RhythmPanel,
  StoragePanel,
} from './dashboard/content-panels.tsx';
import { ChangesPanel, GigabytesPanel, KeptPanel } from './dashboard/growth-panels.tsx';
import { found } from './dashboard/labels.ts';
import { ProofsPanel, RequestsPanel, VerificationPanel } from './dashboard/trust-panels.tsx';
import { Icon } from './icons.tsx';
import type { PageOf } from './page.ts';
import { Shell } from './shell.tsx';

type Dashboard = PageOf<'dashboard'>;

const RANGE_NAMES: Readonly<Record<Range, string>> = {
  '30d': '30 days',
  '90d': '90 days',
  '1y': 'a year',
  all: 'all',
};

/** The archive in numbers. */
export function DashboardPage({ page }: { readonly page: Dashboard }): VNode {
  const { frame, data } = page;
  return (
    <Shell frame={frame} here="dashboard">
      <div class="page dashboard">
        {data === null ? <NotShown page={page} /> : <Numbers page={page} data={data} />}
        <p class="as-of">
          Numbers as of commit {count(page.commit.number)}
          {page.commit.time !== null && `, ${timeText(page.commit.time, page.zone)}`}. Days begin at
          midnight in {page.zone}
          {page.wrongZone === null ? '' : `, because nobody knows the zone “${page.wrongZone}”`}.
        </p>
      </div>
    </Shell>
  );
}

/** The address of this page with another query or range. */
function address(page: Dashboard, query: string, range: Range | null): string {
  const tz = page.typedZone ?? undefined;
  return pageAddress('/dashboard', { q: query, range: range ?? undefined, tz });
}

function NotShown({ page }: { readonly page: Dashboard }): VNode {
  const { query, problem } = page.frame;
  return (
    <>
      <h1>Dashboard</h1>
      <div class="strip warn">
        <Icon name="alert" />
        <div>
          {problem === null ? (
            <strong>The dashboard counts mailboxes and accounts, as they are now.</strong>
          ) : (
            <strong>{problem.message}</strong>
          )}
          <p>
            {problem === null ? (
              <>
                <a class="link" href={found(query)}>
                  See what <bdi>{query}</bdi> finds
                </a>
                , or{' '}
              </>
            ) : (
              problem.suggestion !== null && (
                <>
                  <a class="link" href={address(page, problem.suggestion.query, page.range)}>
                    Did you mean <bdi>{problem.suggestion.text}</bdi>?
                  </a>{' '}
                </>
              )
            )}
            <a class="link" href={address(page, '', page.range)}>
              {problem === null ? 'the' : 'The'} dashboard of all mailboxes
            </a>
            .
          </p>
        </div>
      </div>
    </>
  );
}

function Numbers({
  page,
  data,
}: {
  readonly page: Dashboard;
  readonly data: NonNullable<Dashboard['data']>;
}): VNode {
  const { zone, now, base } = page;
  const { storage } = data;
  const isEmpty = data.kept.total.count === 0;
  return (
    <>
      <Textures />
      <Head page={page} closing={data.closing} isEmpty={isEmpty} />
      <Equation closing={data.closing} />
      {isEmpty && (
        <p class="strip">
          <Icon name="inbox" />
          <span>No message is here yet. The charts fill with the first sync or import.</span>
        </p>
      )}
      <div class="grid-12">
        <KeptPanel data={data.kept} zone={zone} />
        <GigabytesPanel data={data.gigabytes} unit={data.kept.unit} zone={zone} />
        <ChangesPanel data={data.changes} zone={zone} />
        <ProofsPanel proofs={data.proofs} now={now} zone={zone} />
        <RequestsPanel data={data.requests} zone={zone} />
        <VerificationPanel data={data.verification} zone={zone} />
        <StoragePanel name="Storage by mailbox" rows={storage.mailboxes} note="raw bytes" />
        <StoragePanel name="Storage by folder" rows={storage.folders} note="raw bytes" />
        <StoragePanel
          name="Storage by type"
          rows={storage.types ?? []}
          note="each attachment once"
          remark={
            storage.types === null
              ? 'These mailboxes alone are not counted: the archive has more than 100,000 attachments, and mailboxes share them.'
              : null
          }
        />
        <CorrespondentsPanel
          data={data.correspondents}
          narrow={(query) => `${base} ${query}`.trim()}
        />
        <RhythmPanel data={data.rhythm} zone={zone} />
        <QuarantinePanel data={data.quarantine} zone={zone} />
      </div>
    </>
  );
}

function Head({
  page,
  closing,
  isEmpty,
}: {
  readonly page: Dashboard;
  readonly closing: Closing;
  readonly isEmpty: boolean;
}): VNode {
  const { frame, range, mailboxes, now } = page;
  const { incomplete, comparedAt } = closing;
  const compared =
    comparedAt === null
      ? ''
      : `, compared with the service ${span(Math.max(0, now - comparedAt))} ago`;
  return (
    <div class="head">
      <div class="says">
        <h1>
          {isEmpty
            ? 'Nothing is archived yet'
            : incomplete > 0
              ? `${counted(incomplete, 'folder')} not complete`
              : 'The archive adds up'}
        </h1>
        <p class="muted">
          {counted(closing.mailboxes, 'mailbox', 'mailboxes')}, {counted(closing.folders, 'folder')}
          {compared}
        </p>
      </div>
      <div class="controls">
        {mailboxes.length > 1 && (
          <nav class="seg" aria-label="Mailbox">
            <a
              href={address(page, '', range)}
              aria-current={frame.query.trim() === '' ? 'true' : undefined}
            >
              All mailboxes
            </a>
            {mailboxes.map(({ name, query }) => (
              <a
                key={query}
                href={address(page, query, range)}
                aria-current={frame.query.trim() === query ? 'true' : undefined}
              >
                <bdi>{name}</bdi>
              </a>
            ))}
          </nav>
        )}
        <nav class="seg" aria-label="Time">
          <a
            href={address(page, frame.query, null)}
            aria-current={range === null ? 'true' : undefined}
          >
            Overview
          </a>
          {RANGES.map((one) => (
            <a
              key={one}
              href={address(page, frame.query, one)}
              aria-current={range === one ? 'true' : undefined}
            >
              {RANGE_NAMES[one]}
            </a>
          ))}
        </nav>
      </div>
    </div>
  );
}

/** The closing sentence, large. */
function Equation({ closing }: { readonly closing: Closing }): VNode {
  const { imported, ended, endedQuery } = closing;
  const { atService, terms, pending } = closingEquation(closing);
  return (
    <div class="eq">
      {(atService + pending > 0 || imported === 0) && (
        <p class="sum">
          <span class="term">
            <strong>{count(atService)}</strong>{' '}
            <span>{atService === 1 ? 'message' : 'messages'} at the service</span>
          </span>
          {terms.map(({ kind, count: messages, text }, i) => (
            <>
              <i>{i === 0 ? '=' : '+'}</i>
              <span key={kind} class={`term ${TERM_CLASSES[kind] ?? ''}`}>
                <strong>
                  <Linked href={TERM_LINKS[kind]}>{count(messages)}</Linked>
                </strong>{' '}
                <span>{text}</span>
              </span>
            </>
          ))}
        </p>
      )}
      {pending > 0 && (
        <p class="sum">
          <span class="term w">
            <strong>
              <a href="/health/held">{count(pending)}</a>
            </strong>{' '}
            <span>{pending === 1 ? 'pending deletion' : 'pending deletions'}</span>
          </span>
        </p>
      )}
      {imported > 0 && (
        <p class="sum">
          <span class="term">
            <strong>{count(imported)}</strong> <span>imported from files</span>
          </span>
        </p>
      )}
      {ended > 0 && (
        <p class="sum e">
          <span class="term">
            <strong>
              <a href={found(endedQuery)}>{count(ended)}</a>
            </strong>{' '}
            <span>deleted there, kept only here</span>
          </span>
        </p>
      )}
    </div>
  );
}

const TERM_LINKS: Readonly<Record<string, string>> = {
  assumed: '/health/folders',
  quarantined: '#quarantine',
};
const TERM_CLASSES: Readonly<Record<string, string>> = { stored: 'k', quarantined: 'w' };

function Linked({
  href,
  children,
}: {
  readonly href: string | undefined;
  readonly children: string;
}): VNode {
  return href === undefined ? <>{children}</> : <a href={href}>{children}</a>;
}
