import type { Registry } from 'prom-client';
import { type CopyFacts, copyDamage, isStale } from './copies.ts';
import { labelled } from './gauges.ts';

/** Adds what monitoring wants to know of the copies of the archive, each labelled with its address. */
export function copyGauges(
  registry: Registry,
  copies: () => readonly CopyFacts[],
  now: () => number,
): void {
  const gauge = (name: string, help: string, read: (copy: CopyFacts) => number | null): void =>
    labelled(registry, `copy_${name}`, help, ['copy'], () =>
      copies().map((copy) => [{ copy: copy.to }, read(copy)]),
    );
  gauge(
    'age_seconds',
    'Since the copy was last brought up to date; +Inf when it never was',
    ({ made }) => (made === null ? Number.POSITIVE_INFINITY : Math.max(0, now() - made.at) / 1_000),
  );
  gauge('commit', 'The commit that the copy has reached', ({ made }) => made?.commit ?? null);
  gauge('commits_behind', 'Commits of the archive that the copy lacks', ({ behind }) => behind);
  gauge('stale', '1 when the daemon should have brought the copy up to date long ago', (copy) =>
    copy.plan === null ? null : Number(isStale(copy, now())),
  );
  gauge(
    'failed_attempts',
    'Attempts in a row that failed since',
    ({ failed }) => failed?.tries ?? 0,
  );
  gauge(
    'last_verification_timestamp_seconds',
    'When some of the copy was last read back',
    ({ checked }) => (checked === null ? null : checked.at / 1_000),
  );
  gauge(
    'last_full_verification_timestamp_seconds',
    'When all of the copy was last read back',
    ({ checked }) => (checked?.fullAt == null ? null : checked.fullAt / 1_000),
  );
  gauge(
    'damage_findings',
    'Findings in the copy, until all of it is found intact',
    (copy) => copyDamage(copy)?.found ?? 0,
  );
}
