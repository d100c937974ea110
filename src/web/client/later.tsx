import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { SavedSearch } from '../../catalog/saved-searches.ts';
import { count, savedTerm, twoDigits } from '../../core/text.ts';
import { type ConversationProps, initiallyOpen, Thread } from '../pages/conversation.tsx';
import { folderIcon, Icon, type IconName, Link } from '../pages/elements.tsx';
import {
  MAX_UNFOLDED,
  type MessageContent,
  messageAddress,
  type NoMessage,
} from '../pages/message-props.ts';
import { PLAIN_FIELD, ProblemText } from '../pages/query-box.tsx';
import { filterText, type Term } from '../query-text.ts';
import type { SaveResult } from '../saving.ts';
import type { FolderTree, FolderTreeEntry } from '../side-tree.ts';
import type { CompletionRow } from '../typed-word.ts';
import { Choice } from './filter-chips.tsx';
import { KEY_MAP, keyCaps } from './keys.ts';
import { useKeys } from './page-keys.tsx';
import { lettersEnabled } from './preferences.ts';
import { fetchCompletions } from './query-box.tsx';
import { ask, LatestTask, postForm, RequestRefused, useViewer } from './viewer.ts';

/** Code that loads with the first message, attachments page, menu or dialog. */
export { FilesPage } from '../pages/files-page.tsx';
export { MessagePage, MessagePane, NoMessagePage } from '../pages/message-pane.tsx';
export { LiveHistoryBar as OpenBand } from './history-bar.tsx';

/** A conversation whose messages unfold in place. */
export function LiveConversation({ message }: ConversationProps) {
  const viewer = useViewer();
  const [open, setOpen] = useState(() => initiallyOpen(message));
  const requests = useRef(new Set<string>());
  const { place, conversation, id: own } = message;
  useLayoutEffect(() => {
    const element = document.getElementById(`m-${own.slice(0, 16)}`);
    if (element?.previousElementSibling != null) element.scrollIntoView({ block: 'start' });
  }, [own]);
  const unfold = async (id: string): Promise<boolean> => {
    if (requests.current.has(id)) return false;
    requests.current.add(id);
    try {
      const parameters = new URLSearchParams({ m: id, q: place.query, page: place.page });
      const content = await ask<MessageContent | NoMessage>(`/api/message?${parameters}`);
      if (content.kind !== 'message') throw new RangeError('no such message');
      setOpen((previous) => new Map(previous).set(id, content));
      return true;
    } finally {
      requests.current.delete(id);
    }
  };
  // Unfolds other matching messages one by one, so that they do not delay the opened message.
  useEffect(() => {
    let isShown = true;
    const unfoldFound = async (): Promise<void> => {
      for (const id of conversation.found.slice(0, MAX_UNFOLDED))
        if (isShown && !open.has(id)) await unfold(id);
    };
    // A message that cannot be loaded stays folded. Clicking it shows the reason.
    unfoldFound().catch(() => undefined);
    return () => {
      isShown = false;
    };
  }, [own]);
  const toggle = (id: string): void => {
    if (!open.has(id)) {
      unfold(id).then(
        (isOpen) => isOpen && focusSoon(() => document.getElementById(`m-${id.slice(0, 16)}`)),
        // The message's page shows why it cannot be loaded.
        () => viewer.go(messageAddress(place, id, 'thread')),
      );
      return;
    }
    setOpen((previous) => new Map([...previous].filter(([one]) => one !== id)));
    focusSoon(() => document.querySelector<HTMLElement>(`[data-fold="${id}"]`));
  };
  return <Thread message={message} open={open} toggle={toggle} />;
}

/** Moves the focus in the next frame, when the previously focused element is gone. */
function focusSoon(find: () => HTMLElement | null): void {
  requestAnimationFrame(() => find()?.focus({ preventScroll: true }));
}

/** A filter field is shown if there are more folders than this. */
const MANY = 12;

export function FolderMenu({
  tree,
  chosen,
  choose,
}: {
  tree: FolderTree;
  chosen: Term | undefined;
  /** Called with the query from the folder's sidebar link. */
  choose: (entry: string) => void;
}) {
  const [wanted, setWanted] = useState('');
  const fits = ({ name, path }: FolderTreeEntry): boolean =>
    `${path ?? ''} ${name}`.toLowerCase().includes(wanted.toLowerCase());
  const all = tree.mailboxes.flatMap(({ folders }) => folders);
  const row = ({ name, query, count: found }: FolderTreeEntry, icon: IconName) =>
    query === null ? null : (
      <Choice
        key={query}
        isOn={chosen !== undefined && query.includes(chosen.text)}
        choose={() => choose(query)}
        count={found === null ? '' : count(found)}
      >
        <Icon name={icon} />
        <bdi>{name}</bdi>
      </Choice>
    );
  return (
    <>
      {all.length > MANY && <Narrow label="Folder" value={wanted} write={setWanted} />}
      {wanted === '' && <Choice choose={() => choose('')}>Anywhere</Choice>}
      {tree.mailboxes.map((mailbox) => (
        <div key={mailbox.name}>
          {(fits(mailbox) || tree.mailboxes.length === 1) &&
            row(mailbox, mailbox.imported ? 'box' : 'mail')}
          {[...mailbox.folders, ...mailbox.earlier]
            .filter(fits)
            .map((entry) => row(entry, folderIcon(entry.path ?? entry.name, entry.specialUse)))}
        </div>
      ))}
    </>
  );
}

export function PeopleMenu({ choose }: { choose: (text: string | null) => void }) {
  const [wanted, setWanted] = useState('');
  const [rows, setRows] = useState<readonly CompletionRow[]>([]);
  const asking = useRef(new LatestTask()).current;
  useEffect(() => {
    // Quoted if it contains spaces, as a user would type it.
    const text = wanted === '' ? 'from:' : filterText('from', wanted);
    asking.run(async (signal) => {
      const found = await fetchCompletions({ text, caret: text.length }, signal);
      if (!signal.aborted) setRows(found);
    });
  }, [wanted, asking]);
  useEffect(() => () => asking.stop(), [asking]);
  const typed = wanted.trim();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (typed !== '') choose(filterText('from', typed));
      }}
    >
      <Narrow label="Name or address" value={wanted} write={setWanted} />
      {typed === '' ? (
        <>
          <Choice choose={() => choose(null)}>Anyone</Choice>
          <Choice choose={() => choose('from:me')}>Me</Choice>
        </>
      ) : (
        <Choice choose={() => choose(filterText('from', typed))}>
          Any name with <bdi class="mono">{typed}</bdi>
        </Choice>
      )}
      {rows.map((row) => (
        <Choice
          key={row.insert}
          choose={() => choose(`from:${row.insert}`)}
          count={row.count === null ? '' : count(row.count)}
        >
          <bdi>{row.label}</bdi>
          <bdi class="faint">{row.detail}</bdi>
        </Choice>
      ))}
    </form>
  );
}

const YEARS = 4;

export function SinceMenu({ choose }: { choose: (text: string | null) => void }) {
  const now = new Date();
  const year = now.getFullYear();
  const month = (ago: number): string => {
    const first = new Date(year, now.getMonth() - ago, 1);
    return `${first.getFullYear()}-${twoDigits(first.getMonth() + 1)}`;
  };
  const since = (label: string, value: string) => (
    <Choice key={value} choose={() => choose(`after:${value}`)}>
      {label}
    </Choice>
  );
  return (
    <>
      <Choice choose={() => choose(null)}>Any time</Choice>
      {since('Today', 'today')}
      {since('This month', month(0))}
      {since('Last month', month(1))}
      {Array.from({ length: YEARS }, (_, ago) => since(String(year - ago), String(year - ago)))}
      <label class="day">
        Since
        <input
          type="date"
          onChange={({ currentTarget: { value } }) => {
            if (/^\d{4}-\d\d-\d\d$/.test(value)) choose(`after:${value}`);
          }}
        />
      </label>
    </>
  );
}

interface NarrowProps {
  readonly label: string;
  readonly value: string;
  readonly write: (text: string) => void;
}

function Narrow({ label, value, write }: NarrowProps) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <input
      {...PLAIN_FIELD}
      ref={field}
      class="narrow"
      value={value}
      onInput={(event) => write(event.currentTarget.value)}
      aria-label={label}
      placeholder={label}
    />
  );
}

export function KeyMap({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="key-map" aria-labelledby="key-map" onClose={onClose}>
      <header>
        <h2 id="key-map">Keys</h2>
        <button type="button" class="btn" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </header>
      {!lettersEnabled() && (
        <p class="strip">Letters are switched off in this browser; settings switch them on.</p>
      )}
      <div class="key-groups">
        {KEY_MAP.map(({ name, bindings }) => (
          <section key={name}>
            <h3>{name}</h3>
            <dl>
              {bindings.map(({ action, keys, label }) => (
                <div key={action}>
                  <dt>
                    {keys.map((one, i) => (
                      <span key={one}>
                        {i > 0 && ' or '}
                        {keyCaps(one).map((cap, j) => (
                          <kbd key={j}>{cap}</kbd>
                        ))}
                      </span>
                    ))}
                  </dt>
                  <dd>{label}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p class="small">
        Letters act outside of fields only. <Link to="/you">Settings</Link> switch them off, and
        choose theme and density.
      </p>
    </dialog>
  );
}

export function SaveBox() {
  const viewer = useViewer();
  const query = viewer.searched;
  const [name, setName] = useState('@');
  const [saved, setSaved] = useState<readonly SavedSearch[]>([]);
  const [problem, setProblem] = useState<SaveResult['problem']>(null);
  const named = name.replace(/^@/, '').trim();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    field.current?.focus();
    field.current?.setSelectionRange(1, 1);
    ask<readonly SavedSearch[]>('/api/saved').then(setSaved, () => {});
  }, []);
  const end = (): void => {
    viewer.setSaving(false);
    // The query box reappears in the next frame.
    requestAnimationFrame(() => document.getElementById('query')?.focus());
  };
  // Overrides the page's handler for going back.
  useKeys({ back: end });
  const send = async (path: string, fields: Readonly<Record<string, string>>): Promise<boolean> => {
    try {
      const saving = await postForm<SaveResult>(path, fields);
      setSaved(saving.saved);
      setProblem(saving.problem);
      if (saving.problem !== null) return false;
      await viewer.refreshFrame();
      return true;
    } catch (error) {
      const isLimited = error instanceof RequestRefused && error.status === 403;
      const message = isLimited
        ? 'A limited sign-in saves no searches.'
        : 'No answer came. Nothing was changed.';
      setProblem({ message, ...NO_WAY });
      return false;
    }
  };
  const save = async (replace: boolean): Promise<void> => {
    if (await send('/api/saved', { name, query, replace: replace ? '1' : '0' })) end();
  };
  return (
    <>
      <form
        class={problem === null ? 'query' : 'query wrong'}
        onSubmit={(event) => {
          event.preventDefault();
          void save(false);
        }}
      >
        <Icon name="tag" />
        <div class="field">
          <input
            {...PLAIN_FIELD}
            ref={field}
            value={name}
            onInput={(event) => {
              setName(event.currentTarget.value);
              setProblem(null);
            }}
            aria-label="Name of the saved search"
            aria-invalid={problem === null ? undefined : 'true'}
            aria-describedby="saving"
            enterkeyhint="done"
            maxLength={67}
          />
        </div>
        <button type="submit" class="btn">
          Save
        </button>
        <button type="button" class="btn quiet" onClick={end}>
          Cancel
        </button>
      </form>
      <div class="below" id="saving">
        {problem === null ? (
          <p>
            A name for <bdi class="mono">{query === '' ? 'an empty query' : query}</bdi>. Use it
            later as <bdi class="mono">{savedTerm(named || 'name')}</bdi>, here and on the command
            line.
          </p>
        ) : (
          <div role="alert">
            <ProblemText problem={problem} />
            {problem.taken !== null && (
              <button type="button" class="btn" onClick={() => void save(true)}>
                Replace it
              </button>
            )}
          </div>
        )}
        <ul class="saved">
          {saved.map((search) => (
            <li key={search.name}>
              <span class="mono">{savedTerm(search.name)}</span>
              <bdi class="mono">{search.query}</bdi>
              <button
                type="button"
                class="btn quiet"
                onClick={() => {
                  void send('/api/saved/forget', { name: search.name });
                  // The focused button is removed with its row.
                  field.current?.focus();
                }}
              >
                Remove<span class="vh"> {savedTerm(search.name)}</span>
              </button>
            </li>
          ))}
        </ul>
      </div>
    </>
  );
}

const NO_WAY = { hint: null, taken: null };
