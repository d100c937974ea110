import type { RetentionSettings, Settings } from '../../config/settings.ts';
import type { PrunePlan } from '../../retention/plan-prune.ts';
import type { StateFile } from '../../state/state-file.ts';
import type { Reader } from '../archive/reader.ts';
import { type PlanningContext, plannedPrune } from '../purge.ts';

/** What the configuration decides about an archive, for those who only look at it. */
export interface ArchivePolicy {
  readonly retention: RetentionSettings;
  /** A comparison at least this much later may confirm the deletions that the brake holds. */
  readonly confirmAfterMs: number;
  /** When the daemon prunes, as a cron expression; null where only `mailkeep prune` does. */
  readonly pruneSchedule: string | null;
  /** What pruning would remove now. @throws what `plannedPrune` throws */
  plan(reader: Pick<Reader, 'catalog'>, state: Pick<StateFile, 'entries'> | undefined): PrunePlan;
}

/** Returns what a configuration decides. */
export function policyOf(
  { retention, brake, schedule }: Pick<Settings, 'retention' | 'brake' | 'schedule'>,
  context: PlanningContext,
): ArchivePolicy {
  return {
    retention,
    confirmAfterMs: brake.confirmAfterMs,
    pruneSchedule: schedule.prune,
    plan: ({ catalog }, state) => plannedPrune(context, catalog, state, retention),
  };
}
