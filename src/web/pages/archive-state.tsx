import type { VNode } from 'preact';
import { clockText, count, counted, dayText } from '../../core/text.ts';
import type { ArchiveState, FirstSync } from '../issues.ts';
import { Command, Mark } from './frame.tsx';
import { Icon } from './icons.tsx';
import { Moment } from './time-band.tsx';

/** The worst state of the archive in words and shape, as a link to what is behind it. */
export function StateLink({
  state,
  matters,
}: {
  readonly state: ArchiveState;
  readonly matters: number;
}): VNode {
  const { level, provenAt, now } = state;
  return (
    <a
      class="stat wide state"
      href="/health"
      title={
        provenAt === null
          ? undefined
          : `Each folder was compared on ${dayText(provenAt)}${clockText(provenAt)} or later`
      }
    >
      <span class={`dot ${level}`} />
      {stateWords(state, matters, now)}
    </a>
  );
}

/**
 * Returns the state of an archive in two or three words.
 *
 * @param now milliseconds since the epoch
 */
export function stateWords(
  { level, provenAt, isMirror }: Pick<ArchiveState, 'level' | 'provenAt' | 'isMirror'>,
  matters: number,
  now: number,
): string {
  if (level === 'bad') return 'Damage';
  if (level === 'warn') return `Needs you: ${count(matters)}`;
  if (provenAt !== null) return `Healthy, backed up ${ago(now - provenAt)}`;
  return isMirror ? 'Not backed up yet' : 'Healthy';
}

/** Whole minutes or hours that have passed. */
function ago(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${minutes} min ago`;
  return `${Math.floor(minutes / 60)} h ago`;
}

/** Says that the daemon makes no passes, and since when. What is archived can be read all the same. */
export function SilentStrip({
  state: { silentSince, provenAt },
}: {
  readonly state: ArchiveState;
}): VNode | null {
  if (silentSince === null) return null;
  return (
    <p class="strip warn">
      <Icon name="pulse" />
      <span>
        <strong>
          The daemon has made no pass since <Moment ms={silentSince} />.
        </strong>{' '}
        Reading and searching go on; nothing new comes.{' '}
        {provenAt !== null && (
          <>
            Last compared <Moment ms={provenAt} />.{' '}
          </>
        )}
        <a class="link" href="/health/runs">
          See the runs
        </a>
      </span>
    </p>
  );
}

/** How far the first sync is: above the list, or in its place where nothing is here yet. */
export function FirstSyncNote({ first }: { readonly first: FirstSync }): VNode {
  const { mailboxes, folders, done, messages } = first;
  const far = (
    <>
      {folders === 0
        ? `${counted(mailboxes, 'mailbox', 'mailboxes')} found`
        : `${count(done)} of ${counted(folders, 'folder')} compared`}
      , {counted(messages, 'message')} here so far.
    </>
  );
  const bar = folders > 0 && <progress value={done} max={folders} aria-label="Folders compared" />;
  if (messages > 0)
    return (
      <p class="strip note first-sync">
        <Icon name="save" />
        <span>
          <strong>The first sync is not complete yet.</strong> {far} The newest mail comes first,
          and what is here can be read already.
          {bar}
        </span>
      </p>
    );
  return (
    <div class="nothing first-sync">
      <Mark />
      <h2>The newest mail comes first</h2>
      {bar}
      <p>{far} What is here can be read already.</p>
    </div>
  );
}

/** An archive that no mailbox was set up for yet. */
export function NoMailbox(): VNode {
  return (
    <div class="nothing">
      <Icon name="mail" />
      <h2>No mailbox yet</h2>
      <p>This sets one up. The first sync fetches the newest mail first:</p>
      <Command>mailkeep init</Command>
    </div>
  );
}
