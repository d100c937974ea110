import { type ComponentChildren, toChildArray, type VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Span } from '../../catalog/query-ast.ts';
import { clockText, dayText, shortMonth } from '../../core/text.ts';
import { Icon } from '../pages/elements.tsx';
import type { Frame } from '../pages/page.ts';
import {
  addTerm,
  findTerm,
  pageAddress,
  removeTerm,
  replaceTerm,
  type Term,
  termsOf,
  toggleTerm,
} from '../query-text.ts';
import { useOneColumn } from './focus.ts';
import { laterPart } from './later-part.tsx';
import { useViewer } from './viewer.ts';

/** Not a plain object, because users type the keys and objects inherit properties such as `constructor`. */
const NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    in: 'In',
    mailbox: 'In',
    from: 'From',
    to: 'To',
    cc: 'Cc',
    bcc: 'Bcc',
    subject: 'Subject',
    filename: 'File',
    after: 'Since',
    newer_than: 'Since',
    before: 'Before',
    older_than: 'Older than',
    on: 'On',
    date: 'On',
    added: 'Stored',
    deleted: 'Deleted',
    larger: 'Larger than',
    smaller: 'Smaller than',
    list: 'List',
    asof: 'As of',
  }),
);

const STATES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    'is:unread': 'Unread',
    'is:read': 'Read',
    'is:starred': 'Starred',
    'is:unstarred': 'Not starred',
    'is:answered': 'Answered',
    'is:unanswered': 'Not answered',
    'is:forwarded': 'Forwarded',
    'is:draft': 'Draft',
    'has:attachment': 'Has attachment',
    'has:inline': 'Has inline pictures',
  }),
);

/** Returns a term's label, with dates formatted as in the rows. Falls back to the term as typed. */
export function chipLabel({ operator, value, negated, text }: Term): string {
  if (operator === null || value === null || value === '') return text;
  const state = STATES.get(`${operator}:${value.toLowerCase()}`);
  if (state !== undefined) return negated ? `Not: ${state}` : state;
  const name = NAMES.get(operator);
  if (name === undefined) return text;
  const label = `${name} ${shown(operator, value)}`;
  return negated ? `Not ${label.charAt(0).toLowerCase()}${label.slice(1)}` : label;
}

function shown(operator: string, value: string): string {
  if (operator === 'in') return value.replace(/^INBOX[./](?=.)/, '');
  return (
    dateText(value) ?? momentText(value) ?? rangeText(value) ?? value.replace(/^<(.*)>$/, '$1')
  );
}

function momentText(value: string): string | undefined {
  if (!/^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d/.test(value)) return undefined;
  const moment = Date.parse(value);
  return Number.isNaN(moment) ? undefined : dayText(moment) + clockText(moment);
}

/** Returns `A – B` for a range and a number of days for `7d..`; undefined if the value is not a range. */
function rangeText(value: string): string | undefined {
  const dots = value.indexOf('..');
  if (dots < 0) return undefined;
  const [from, to] = [value.slice(0, dots), value.slice(dots + 2)];
  const named = (text: string): string => dateText(text) ?? momentText(text) ?? text;
  const [, days] = /^(\d{1,4})d$/.exec(from) ?? [];
  if (to === '') return days === undefined ? `since ${named(from)}` : `in the last ${days} days`;
  return from === '' ? `until ${named(to)}` : `${named(from)} – ${named(to)}`;
}

function dateText(value: string): string | undefined {
  const [, year, month, day] = /^(\d{4})-(\d{1,2})(?:-(\d{1,2}))?$/.exec(value) ?? [];
  const named = shortMonth(Number(month));
  if (named === '') return undefined;
  return `${day === undefined ? '' : `${Number(day)} `}${named} ${year}`;
}

type Slot = 'in' | 'mailbox' | 'from' | 'since';

const OPERATORS: Readonly<Record<Slot, readonly string[]>> = {
  in: ['in'],
  mailbox: ['mailbox'],
  from: ['from'],
  since: ['after', 'newer_than'],
};

const ATTACHMENT = 'has:attachment';
const UNREAD = 'is:unread';

type DeletedChoice = readonly [term: string | null, chip: string, choice: string];
const DELETED = {
  shown: [null, 'Deleted: shown', 'With deleted messages'],
  only: ['is:deleted', 'Deleted: only', 'Only deleted messages'],
  week: ['deleted:7d..', 'Deleted: last 7 days', 'Deleted in the last 7 days'],
  month: ['deleted:30d..', 'Deleted: last 30 days', 'Deleted in the last 30 days'],
  hidden: ['-is:deleted', 'Deleted: hidden', 'Without deleted messages'],
} as const satisfies Record<string, DeletedChoice>;
type Deleted = keyof typeof DELETED;
const DELETED_CHOICES = Object.keys(DELETED) as Deleted[];

/** Finds the filters in a query. Plain words get no chips, because the query box already shows them. */
export function findChips(query: string) {
  const { terms, isEither } = termsOf(query);
  const either = isEither ? query.trim() : null;
  const candidates = isEither ? [] : terms;
  const slot = (name: Slot): Term | undefined => candidates.find((term) => fits(term, name));
  const slots = {
    in: slot('in'),
    mailbox: slot('mailbox'),
    from: slot('from'),
    since: slot('since'),
  };
  const attachment = findTerm(query, ATTACHMENT);
  const unread = findTerm(query, UNREAD);
  const [deleted, ofDeleted]: readonly [Deleted, Term?] = findDeleted(query) ?? ['shown'];
  const asOf = candidates.find(({ operator }) => operator === 'asof');
  const starts = new Set(
    [...Object.values(slots), attachment, unread, ofDeleted, asOf].map((term) => term?.start),
  );
  return {
    slots,
    attachment,
    unread,
    deleted,
    asOf,
    others: candidates.filter((term) => !starts.has(term.start) && hasChip(term)),
    either,
  };
}

function fits({ operator, value, negated }: Term, slot: Slot): boolean {
  return !negated && value !== null && operator !== null && OPERATORS[slot].includes(operator);
}

/** Returns whether a term is a filter rather than a plain word. Brackets, NEAR and saved searches count as filters. */
function hasChip({ operator, value, text }: Term): boolean {
  return operator !== null || value === null || /^-?@[\p{L}\p{N}][\p{L}\p{N}_-]*$/u.test(text);
}

export function withSlot(query: string, slot: Slot, text: string | null): string {
  return setTerm(query, findChips(query).slots[slot], text);
}

/** Replaces or adds a term. Null removes it. */
function setTerm(query: string, term: Term | undefined, text: string | null): string {
  if (term === undefined) return text === null ? query : addTerm(query, text);
  return text === null ? removeTerm(query, term) : replaceTerm(query, term, text);
}

/** Limits a query to a folder or mailbox. @param entry the query in its sidebar link; empty for all mail */
export function withFolder(query: string, entry: string): string {
  const { slots } = findChips(entry);
  return (['mailbox', 'in'] as const).reduce(
    (changed, slot) => withSlot(changed, slot, slots[slot]?.text ?? null),
    query,
  );
}

export function withDeleted(query: string, deleted: Deleted): string {
  return setTerm(query, findDeleted(query)?.[1], DELETED[deleted][0]);
}

function findDeleted(query: string): readonly [Deleted, Term] | undefined {
  for (const deleted of DELETED_CHOICES) {
    const text = DELETED[deleted][0];
    const term = text === null ? undefined : findTerm(query, text);
    if (term !== undefined) return [deleted, term];
  }
  return undefined;
}

const FolderMenu = laterPart((code) => code.FolderMenu);
const PeopleMenu = laterPart((code) => code.PeopleMenu);
const SinceMenu = laterPart((code) => code.SinceMenu);

const MORE = [
  ['is:starred', 'Starred'],
  ['is:unanswered', 'Not answered'],
  ['from:me', 'From me'],
  ['to:me', 'To me'],
  ['has:inline', 'Inline pictures'],
  ['larger:5M', 'Larger than 5 MB'],
  ['is:draft', 'Draft'],
] as const;

/** The query's filters as chips. Changing one leaves the other terms as typed. */
export function LiveChips({ frame }: { frame: Frame }) {
  const viewer = useViewer();
  const query = viewer.address.searchParams.get('q') ?? '';
  const { slots, attachment, unread, deleted, asOf, others, either } = findChips(query);
  const write = (text: string): void => viewer.type(text);
  const without = (term: Span): void => write(removeTerm(query, term));
  const folder = slots.in ?? slots.mailbox;
  const menuOf = (close: () => void, text: string): void => {
    close();
    write(text);
  };
  const slotMenu = (slot: 'from' | 'since', none: string, Menu: typeof PeopleMenu) => {
    const term = slots[slot];
    return (
      <ChipMenu
        key={slot}
        id={`menu-${slot}`}
        label={term === undefined ? none : chipLabel(term)}
        isOn={term !== undefined}
        remove={() => write(withSlot(query, slot, null))}
      >
        {(close) => <Menu choose={(text) => menuOf(close, withSlot(query, slot, text))} />}
      </ChipMenu>
    );
  };
  return (
    <nav class="chips live" aria-label="Filters">
      <Strip>
        <ChipMenu
          key="in"
          id="menu-in"
          label={folder === undefined ? 'Any folder' : chipLabel(folder)}
          isOn={folder !== undefined}
          remove={() => write(withFolder(query, ''))}
        >
          {(close) => (
            <FolderMenu
              tree={frame.tree}
              chosen={folder}
              choose={(entry) => menuOf(close, withFolder(query, entry))}
            />
          )}
        </ChipMenu>
        {slotMenu('from', 'From anyone', PeopleMenu)}
        {slotMenu('since', 'Any time', SinceMenu)}
        <Switch
          key="has"
          label="Has attachment"
          isOn={attachment !== undefined}
          change={() => write(toggleTerm(query, ATTACHMENT))}
        />
        {either !== null && (
          <Switch key="either" label={either} isOn isText change={() => write('')} />
        )}
        {others.map((term) => {
          const label = chipLabel(term);
          return (
            <Switch
              key={`${term.start} ${term.text}`}
              label={label}
              isOn
              isText={label === term.text}
              change={() => without(term)}
            />
          );
        })}
        <Switch
          key="unread"
          label="Unread"
          isOn={unread !== undefined}
          change={() => write(toggleTerm(query, UNREAD))}
        />
        <ChipMenu key="more" id="menu-more" label="More" isOn={false}>
          {() =>
            MORE.map(([text, label]) => {
              const isOn = findTerm(query, text) !== undefined;
              return (
                <Choice key={text} isOn={isOn} choose={() => write(toggleTerm(query, text))}>
                  {label}
                </Choice>
              );
            })
          }
        </ChipMenu>
        <span key="sep" class="sep" />
        <ChipMenu
          key="deleted"
          id="menu-deleted"
          label={DELETED[deleted][1]}
          isOn={deleted !== 'shown'}
        >
          {(close) =>
            DELETED_CHOICES.map((choice) => (
              <Choice
                key={choice}
                isOn={choice === deleted}
                choose={() => menuOf(close, withDeleted(query, choice))}
              >
                {DELETED[choice][2]}
              </Choice>
            ))
          }
        </ChipMenu>
        {asOf !== undefined && (
          <Past key="asof" isOn label={chipLabel(asOf)} change={() => without(asOf)} />
        )}
      </Strip>
      <span class="spacer" />
      <span class="acts">
        {frame.state.whole && (
          <button
            type="button"
            class="btn quiet"
            data-act="save"
            onClick={() => viewer.setSaving(true)}
          >
            <Icon name="tag" />
            Save
          </button>
        )}
        <a
          class="btn quiet"
          data-act="export"
          href={pageAddress('/export', { q: viewer.searched })}
        >
          <Icon name="save" />
          Export
        </a>
      </span>
    </nav>
  );
}

/** A row of chips. In a narrow column, active chips come first, both visually and in the tab order. */
function Strip({ children }: { children: ComponentChildren }) {
  const isNarrow = useOneColumn();
  const chips = toChildArray(children).filter((chip) => typeof chip === 'object');
  const isOn = ({ props }: VNode<object>): boolean => 'isOn' in props && props.isOn === true;
  const [on, off] = [chips.filter(isOn), chips.filter((chip) => !isOn(chip))];
  // Restores the focus to a chip that has moved, or passes it from a removed chip to the first one. A focused body is
  // skipped, since moving the focus would force a layout.
  const { activeElement: focused, body } = document;
  useLayoutEffect(() => {
    if (focused === body || document.activeElement !== body) return;
    const isGone = focused?.isConnected === false && focused.matches('.chip, .off');
    const next = isGone ? document.querySelector('.chips button') : focused;
    if (next instanceof HTMLElement) next.focus();
  });
  return <>{isNarrow ? [...on, ...off] : chips}</>;
}

function Past({ label, change }: Pick<SwitchProps, 'label' | 'isOn' | 'change'>) {
  return (
    <button type="button" class="chip past" onClick={change}>
      {label}
      <Icon name="cross" />
      <span class="vh">(back to now)</span>
    </button>
  );
}

interface SwitchProps {
  readonly label: string;
  readonly isOn: boolean;
  readonly isText?: boolean;
  readonly change: () => void;
}

function Switch({ label, isOn, isText = false, change }: SwitchProps) {
  return (
    <button
      type="button"
      class={isOn ? 'chip on' : 'chip'}
      aria-pressed={isOn}
      title={label}
      onClick={change}
    >
      <bdi class={isText ? 'mono' : undefined}>{label}</bdi>
      {isOn && <Icon name="cross" />}
    </button>
  );
}

/** Minimum distance between a menu and the window's edge, in pixels. */
const EDGE = 8;

interface ChipMenuProps {
  readonly id: string;
  readonly label: string;
  readonly isOn: boolean;
  /** Absent if the chip always has a value. */
  readonly remove?: () => void;
  readonly children: (close: () => void) => ComponentChildren;
}

/** A chip that opens a menu. The browser closes the menu on Escape or a click elsewhere. */
function ChipMenu({ id, label, isOn, remove, children }: ChipMenuProps) {
  const chip = useRef<HTMLSpanElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const open = menu.current;
    open?.addEventListener('keydown', moveByArrows);
    return () => open?.removeEventListener('keydown', moveByArrows);
  }, []);
  useEffect(() => {
    const open = menu.current;
    if (!isOpen || open === null) return;
    focusRow(open);
    // Some menus load their code, and so their rows, only when they are first opened.
    const observer = new MutationObserver(() => focusRow(open));
    observer.observe(open, { childList: true, subtree: true });
    return () => observer.disconnect();
  }, [isOpen]);
  const place = (): void => {
    if (chip.current === null || menu.current === null) return;
    const { left, bottom } = chip.current.getBoundingClientRect();
    const most = document.documentElement.clientWidth - menu.current.offsetWidth - EDGE;
    menu.current.style.setProperty('--x', `${Math.max(EDGE, Math.min(left, most))}px`);
    menu.current.style.setProperty('--y', `${bottom + 4}px`);
  };
  return (
    <span ref={chip} class={isOn ? 'chip on' : 'chip'}>
      <button type="button" class="says" popovertarget={id} aria-expanded={isOpen}>
        <bdi>{label}</bdi>
        {(!isOn || remove === undefined) && <Icon name="down" />}
      </button>
      {isOn && remove !== undefined && (
        <button type="button" class="off" onClick={remove}>
          <Icon name="cross" />
          <span class="vh">Remove: {label}</span>
        </button>
      )}
      <div
        ref={menu}
        id={id}
        popover="auto"
        class="menu"
        onToggle={(event) => {
          setOpen(event.newState === 'open');
          if (event.newState === 'open') requestAnimationFrame(place);
        }}
      >
        {isOpen && children(() => menu.current?.hidePopover())}
      </div>
    </span>
  );
}

/** Focuses the selected or first row, so that arrow keys reach the menu. A field that has the focus keeps it. */
function focusRow(menu: HTMLElement): void {
  if (menu.contains(document.activeElement)) return;
  const row =
    menu.querySelector<HTMLElement>('[aria-pressed=true]') ?? menu.querySelector('button');
  row?.focus();
}

function moveByArrows(event: KeyboardEvent): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined || !(event.currentTarget instanceof HTMLElement)) return;
  const rows = [...event.currentTarget.querySelectorAll<HTMLElement>('button, input')];
  const at = rows.findIndex((row) => row.matches(':focus'));
  rows[at + step]?.focus();
  event.preventDefault();
}

interface ChoiceProps {
  readonly isOn?: boolean;
  readonly choose: () => void;
  readonly count?: string;
  readonly children: ComponentChildren;
}

export function Choice({ isOn = false, choose, count = '', children }: ChoiceProps) {
  return (
    <button type="button" class="choice" aria-pressed={isOn} onClick={choose}>
      <span>{children}</span>
      <span class="n">{count}</span>
    </button>
  );
}
