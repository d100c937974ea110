import { staleCatalog } from '../../engine/archive/reader.ts';
import type { ArchiveStatus } from '../../engine/status/archive-status.ts';
import { copyStatuses } from '../../health/copies.ts';
import type { KeptRun } from '../../state/runs.ts';
import { readState, type StateFile } from '../../state/state-file.ts';
import { type ArchiveState, archiveStateOf, sideTagsOf } from '../reading/archive-state.ts';
import { folderPages } from '../reading/health/folder-rows.ts';
import type { HealthContent, HealthShown, HealthTab } from '../reading/health/health-content.ts';
import { LinkedNumbers } from '../reading/health/linked-numbers.ts';
import { overviewOf } from '../reading/health/overview.ts';
import { retentionOf } from '../reading/health/retention.ts';
import { laneNamed, runPages } from '../reading/health/run-pages.ts';
import { verificationsOf } from '../reading/health/verifications.ts';
import { heldPages, quarantinePages } from '../reading/health/waiting.ts';
import type { Matter } from '../reading/matter.ts';
import { mattersOf } from '../reading/matters.ts';
import type { ServedReader } from '../reading/served-archive.ts';
import type { SideTag } from '../reading/side-tree.ts';
import { statusFor } from '../reading/status-for.ts';
import type { ArchiveParts } from './request-context.ts';

/** Runs that may tell how the last pass of each account was. */
const LAST_RUNS = 50;
/** Runs that are about mail. */
const PASSES = ['sync', 'hand', 'sweep', 'hint', 'backlog'];

/** A parameter of the address; undefined where it has none. */
type Parameter = (name: string) => string | undefined;

/** How the archive is now. */
interface Known {
  readonly state: StateFile | undefined;
  readonly status: ArchiveStatus;
  readonly lastRuns: readonly KeptRun[];
  readonly matters: readonly Matter[];
}

/** What the frame of every page says of the archive. */
export interface FrameState {
  readonly state: ArchiveState;
  /** Matters that need a person. */
  readonly matters: number;
  readonly tags: ReadonlyMap<string, SideTag>;
}

/** Returns how the archive is. */
export function frameState(reader: ServedReader, now: number): FrameState {
  return knowing(reader, now, (known) => frameStateOf(reader, now, known));
}

function frameStateOf(
  reader: ServedReader,
  now: number,
  { state, status, lastRuns, matters }: Known,
): FrameState {
  const known = { hasState: state !== undefined, status, runs: lastRuns, matters };
  return {
    state: archiveStateOf({ ...known, whole: reader.mailboxes === null, now }),
    matters: matters.length,
    tags: sideTagsOf(status),
  };
}

/** Reads what a tab of the health pages shows. */
export function healthTab(
  reader: ServedReader,
  parts: Pick<ArchiveParts, 'now' | 'accounts' | 'policy'>,
  tab: HealthTab,
  parameter: Parameter,
): Omit<HealthContent, 'look' | 'hasDaemon'> & { readonly known: FrameState } {
  const now = parts.now();
  return knowing(reader, now, (known) => {
    const { status, lastRuns } = known;
    const sum = (of: 'quarantined' | 'held'): number =>
      status.mailboxes.reduce((total, mailbox) => total + mailbox[of], 0);
    const held = sum('held');
    return {
      now,
      whole: reader.mailboxes === null,
      lastPassAt: lastRuns.find(({ sum: compared }) => compared !== null)?.endedAt ?? null,
      quarantined: sum('quarantined'),
      held,
      shown: shownIn(reader, { ...parts, now: () => now }, tab, parameter, { ...known, held }),
      known: frameStateOf(reader, now, known),
    };
  });
}

function shownIn(
  reader: ServedReader,
  { now, accounts, policy }: Pick<ArchiveParts, 'now' | 'accounts' | 'policy'>,
  tab: HealthTab,
  parameter: Parameter,
  { state, status, matters, held }: Known & { readonly held: number },
): HealthShown {
  const numbers = new LinkedNumbers(reader, now(), accounts);
  const from = positionOf(parameter('from')) ?? 0;
  switch (tab) {
    case 'overview':
      return { tab, ...overviewOf(status, matters, numbers) };
    case 'folders': {
      const sort = parameter('sort') === 'age' ? 'age' : 'name';
      return { tab, ...folderPages(status.mailboxes, numbers, { from, sort }) };
    }
    case 'runs': {
      const lane = laneNamed(parameter('lane'));
      const before = positionOf(parameter('before'));
      return { tab, ...runPages(state, now(), { before, lane }) };
    }
    case 'quarantine':
      return { tab, ...quarantinePages(reader, state, from) };
    case 'held':
      return { tab, ...heldPages(reader, state, policy(), held) };
    case 'verification':
      return { tab, ...verificationsOf(status, state) };
    case 'retention':
      return { tab, ...retentionOf(reader, state, policy(), now(), accounts) };
  }
}

function knowing<T>(reader: ServedReader, now: number, act: (known: Known) => T): T {
  const { dataDir, catalog } = reader;
  const state = readState(dataDir);
  try {
    const status = statusFor(reader, state);
    const whole = reader.mailboxes === null;
    const behind = whole ? staleCatalog(dataDir, () => catalog.reached().number) : null;
    // A run is about all mailboxes of an account.
    const runs = whole ? (state?.runs.list({ limit: LAST_RUNS, kinds: PASSES }) ?? []) : [];
    const copies = whole ? copyStatuses(state, status.commit.number, now) : [];
    const matters = mattersOf(status, { behind, whole, copies, runs, now });
    return act({ state, status, lastRuns: runs, matters });
  } finally {
    state?.close();
  }
}

function positionOf(typed: string | undefined): number | undefined {
  const position = Number(typed ?? 'none');
  return Number.isSafeInteger(position) && position >= 0 ? position : undefined;
}
