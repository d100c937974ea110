import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { clockText, count, counted, dayText } from '../../core/text.ts';
import type { ArchiveState } from '../issues.ts';
import { asOf, pageAddress } from '../query-text.ts';
import { Brand } from './frame.tsx';
import { Icon, type IconName, Link } from './icons.tsx';
import type { Frame, Here } from './page.ts';
import { useParts } from './parts.ts';
import { Side } from './side.tsx';
import { Moment } from './time-band.tsx';

type Target = readonly [here: Here, path: string, label: string, icon: IconName];

const TARGETS: readonly Target[] = [
  ['mail', '/mail', 'Mail', 'mail'],
  ['files', '/files', 'Attachments', 'clip'],
  ['dashboard', '/dashboard', 'Dashboard', 'chart'],
  ['health', '/health', 'Health', 'pulse'],
];

/** The four main links of a narrow window, within reach of a thumb. */
function BottomNav({ here, query, matters }: { here: Here; query: string; matters: number }) {
  const current = here === 'message' ? 'mail' : here;
  return (
    <nav class="bottom" aria-label="Main">
      {TARGETS.map(([name, path, label, icon]) => (
        <a
          key={name}
          href={name === 'mail' || name === 'files' ? pageAddress(path, { q: query }) : path}
          aria-current={current === name ? 'page' : undefined}
        >
          <span class="icon">
            <Icon name={icon} />
            {name === 'health' && matters > 0 && <span class="badge" aria-hidden="true" />}
          </span>
          {label}
          {name === 'health' && matters > 0 && (
            <span class="vh">{`${count(matters)} need attention`}</span>
          )}
        </a>
      ))}
    </nav>
  );
}

/** The archive's worst state in words and shape, linked to its details. */
function StateLink({ state, matters }: { state: ArchiveState; matters: number }) {
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

/** Returns the archive's state in a few words. @param now milliseconds since the epoch */
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

function ago(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${minutes} min ago`;
  return `${Math.floor(minutes / 60)} h ago`;
}

interface ShellProps {
  readonly frame: Frame;
  readonly here: Here;
  /** A page of mail without a pane for a message. */
  readonly isList?: boolean;
  readonly children: ComponentChildren;
}

export function Shell({ frame, here, isList = false, children }: ShellProps) {
  const { query, tree, past, closing, matters } = frame;
  const { QueryBox, AfterBar, TimeBand } = useParts();
  // The sidebar has most of the elements, and few keys change it.
  const side = useMemo(
    () => <Side tree={tree} query={query} here={here} matters={matters} />,
    [tree, query, here, matters],
  );
  return (
    <>
      <a class="skip" href="#results">
        Skip to the results
      </a>
      {(here === 'mail' || here === 'message') && !isList && (
        <a class="skip" href="#message">
          Skip to the message
        </a>
      )}
      <div class="app">
        <header class="bar">
          <input type="checkbox" id="drawer" class="vh toggle" aria-label="Folders" />
          <label for="drawer" class="stat drawer-button">
            <Icon name="lines" />
            <span class="vh">Folders</span>
          </label>
          <Brand home />
          <QueryBox frame={frame} here={here} />
          {past === null ? (
            <a class="stat as-now" href="#then">
              <Icon name="past" />
              History
            </a>
          ) : (
            <a class="stat past" href="#then">
              <Icon name="past" />
              As of <Moment ms={past.asOf} />
            </a>
          )}
          <StateLink state={frame.state} matters={matters} />
          <a class="stat wide" href="/you" title="Settings">
            <Icon name="person" />
            <span class="vh">Settings</span>
          </a>
        </header>
        {AfterBar && <AfterBar />}
        {side}
        <main class="main" id="results" tabindex={-1}>
          <TimeBand frame={frame} />
          {children}
        </main>
        <Foot closing={closing} past={past} deleted={tree.ended.count} />
        <BottomNav here={here} query={query} matters={matters} />
        <label for="drawer" class="scrim" aria-hidden="true">
          <span class="vh">Close</span>
        </label>
      </div>
    </>
  );
}

function Foot({
  closing,
  past,
  deleted,
}: Pick<Frame, 'closing' | 'past'> & {
  /** Messages, as the link counts them: a moved message has left a place, but is not deleted. */
  deleted: number | null;
}) {
  if (past !== null)
    return (
      <footer class="foot">
        <span class="sum">
          As of <Moment ms={past.asOf} />:{' '}
          {past.messages !== null && (
            <Link q={asOf('', past.asOf)}>
              <b>{count(past.messages)}</b> {past.messages === 1 ? 'message' : 'messages'} known
            </Link>
          )}
          {past.ended !== null && (
            <>
              ,{' '}
              <Link q={`is:deleted ${asOf('', past.asOf)}`}>
                <b>{count(past.ended)}</b> of them deleted at the service by then
              </Link>
            </>
          )}
        </span>
      </footer>
    );
  const { imported, writtenAt } = closing;
  const { atService, terms, pending } = closing.equation;
  const isMirror = atService + pending > 0;
  return (
    <footer class="foot">
      {isMirror || imported === 0 ? (
        <span class="sum">
          <b>{count(atService)}</b> {atService === 1 ? 'message' : 'messages'} at the service ={' '}
          {terms.map(({ kind, count: messages, text }, i) => (
            <>
              {i > 0 && ' + '}
              <b key={kind}>{count(messages)}</b> {text}
            </>
          ))}
          {pending > 0 && `; ${counted(pending, 'pending deletion')}`}
        </span>
      ) : (
        <span class="sum">
          <b>{count(imported)}</b> imported from files
        </span>
      )}
      {isMirror && imported > 0 && (
        <span class="faint">· {count(imported)} imported from files</span>
      )}
      {deleted !== null && deleted > 0 && (
        <a class="faint" href={pageAddress('/mail', { q: 'is:deleted' })}>
          · and {count(deleted)} deleted there, kept only here
        </a>
      )}
      <span class="spacer" />
      {writtenAt !== null && (
        <span>
          last written <Moment ms={writtenAt} />
        </span>
      )}
    </footer>
  );
}
