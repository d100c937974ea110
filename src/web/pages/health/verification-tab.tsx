import type { VNode } from 'preact';
import { bytes, count, counted, span } from '../../../wording/amounts.ts';
import { isFailed } from '../../reading/health/run-pages.ts';
import type { Verifications } from '../../reading/health/verifications.ts';
import { Command } from '../frame.tsx';
import { Icon } from '../icons.tsx';
import { Moment } from '../moment.tsx';
import { Ago, Maybe, Row, TablePanel } from './parts.tsx';

const MODES: Readonly<Record<string, string>> = {
  full: 'every byte was read, and each message compared with its SHA-256',
  repair: 'every byte was read, each message compared with its SHA-256, and damage repaired',
  quick: 'the log was read, without hashing large attachments and complete messages',
  sample: 'a sample of them was read, and each of these compared with its SHA-256',
  drill: 'they were exported, read from the export, and compared',
  rebuild: 'the catalog was rebuilt from the log',
};

const RUNS_HEAD = [
  ['Began', false],
  ['Took', true],
  ['Messages read back', true],
  ['Result', false],
] as const;

/** What was read back, when, and what is damaged. */
export function VerificationTab({
  last,
  messages,
  bytes: logBytes,
  runs,
  now,
}: Verifications & { readonly now: number }): VNode {
  return (
    <>
      {last === null ? (
        <p class="strip warn">
          <Icon name="alert" />
          <span>
            The archive was never verified. A verification reads all {bytes(logBytes)} of the log
            and compares every message with its hash.
          </span>
        </p>
      ) : last.ok ? (
        <p class="strip ok">
          <Icon name="shield" />
          <span>
            No damage is known. Last checked <Moment ms={Date.parse(last.at)} /> (
            <Ago at={last.at} now={now} />
            ), {count(last.checked)} of {counted(last.of, 'message')}:{' '}
            {MODES[last.mode] ?? last.mode}.
          </span>
        </p>
      ) : (
        <Damage last={last} />
      )}
      {last?.ok !== false && <Command>mailkeep verify</Command>}
      <dl class="facts panel">
        <div>
          <dt>Messages in the archive</dt>
          <dd>
            <a class="link" href="/mail">
              {count(messages)}
            </a>
          </dd>
        </div>
        <div>
          <dt>Every byte last read</dt>
          <dd>
            <Maybe at={last?.fullAt ?? null} never="never" />
          </dd>
        </div>
        <div>
          <dt>Last drill</dt>
          <dd>
            {last?.drill == null ? (
              'never'
            ) : (
              <>
                <Moment ms={Date.parse(last.drill.at)} />: {count(last.drill.checked)} of{' '}
                {counted(last.drill.of, 'message')} exported and read back
              </>
            )}
          </dd>
        </div>
      </dl>
      {runs.length > 0 && (
        <TablePanel
          title="Verifications by the daemon"
          note={`the last ${count(runs.length)}`}
          head={RUNS_HEAD}
        >
          {runs.map((run) => (
            <Row key={run.id} head={RUNS_HEAD}>
              <td>
                <Moment ms={run.startedAt} />
              </td>
              <td class="r">{span(Math.max(0, run.endedAt - run.startedAt))}</td>
              <td class="r">{run.messages === null ? '' : count(run.messages)}</td>
              <td class={isFailed(run) ? 'wrap odd' : 'wrap'}>
                <bdi>{isFailed(run) ? (run.troubles[0]?.text ?? 'failed') : 'no damage found'}</bdi>
              </td>
            </Row>
          ))}
        </TablePanel>
      )}
    </>
  );
}

/** Findings of one kind read the same, since what they name is not remembered. */
function distinct<F extends { readonly text: string }>(findings: readonly F[]): F[] {
  return [...new Map(findings.map((finding) => [finding.text, finding])).values()];
}

function Damage({ last }: { readonly last: NonNullable<Verifications['last']> }): VNode {
  const { found, findings, damagedSince } = last;
  return (
    <div class="strip bad">
      <Icon name="alert" />
      <div>
        <p>
          <strong>The archive is damaged: {counted(found, 'finding')}.</strong>{' '}
          {damagedSince !== null && (
            <>
              First found on <Moment ms={Date.parse(damagedSince)} />. It stays here until a repair
              or a clean verification.
            </>
          )}
        </p>
        <ul>
          {distinct(findings).map(({ what, id, text }, at) => (
            <li key={at}>
              <bdi>{text}</bdi>{' '}
              {id !== null && what === 'message' && (
                <a class="link" href={`/m/${id}`}>
                  what of it is intact
                </a>
              )}
            </li>
          ))}
        </ul>
        {found > distinct(findings).length && (
          <p>There are {counted(found, 'finding')}; "mailkeep verify" lists all of them.</p>
        )}
        <Command>mailkeep verify --repair</Command>
      </div>
    </div>
  );
}
