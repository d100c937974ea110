import type { ComponentChildren, RenderableProps, VNode } from 'preact';
import type { SearchHit } from '../../catalog/search.ts';
import type { Range } from '../../catalog/snippets.ts';
import { plainLine } from '../../core/terminal-safe.ts';
import { clockText, consistencyText, dayText } from '../../core/text.ts';
import type { FolderTotals, ListedTotals } from '../../core/types.ts';
import { pageAddress } from '../query-text.ts';

/** Drawn with a 1.4-unit stroke in a 16-unit square. */
const PATHS = {
  mail: 'M2 4.7c0-.7.5-1.2 1.2-1.2h9.6c.7 0 1.2.5 1.2 1.2v6.6c0 .7-.5 1.2-1.2 1.2H3.2c-.7 0-1.2-.5-1.2-1.2zM2.5 4.5 8 8.8l5.5-4.3',
  clip: 'M13 7.2 8 12.2a3 3 0 0 1-4.3-4.3l5.4-5.3a2 2 0 0 1 2.8 2.8L6.7 10.6a1 1 0 0 1-1.4-1.4L10 4.7',
  chart: 'M2.5 13.5h11M4.5 11V8M8 11V3.5M11.5 11V6',
  pulse: 'M1.5 8.5h3l2-5 3 9 2-4h3',
  inbox:
    'M2 9.5v2.7c0 .5.4.8.8.8h10.4c.4 0 .8-.3.8-.8V9.5L12 3.6H4zM2 9.5h3.3c.3 1 1.4 1.7 2.7 1.7s2.4-.7 2.7-1.7H14',
  sent: 'M13.8 2.2 2.2 6.6l4.6 2.6 2.6 4.6zM13.8 2.2 6.8 9.2',
  draft: 'M9.5 2.5H4.2c-.4 0-.7.3-.7.7v9.6c0 .4.3.7.7.7h7.6c.4 0 .7-.3.7-.7V5.5zM9.5 2.5v3h3',
  box: 'M2 3h12v3H2zM3 6v6.4c0 .4.3.6.6.6h8.8c.3 0 .6-.2.6-.6V6M6.5 8.7h3',
  folder:
    'M2 12V4.3c0-.4.3-.8.8-.8h3l1.4 1.6h6c.5 0 .8.3.8.8V12c0 .4-.3.8-.8.8H2.8A.8.8 0 0 1 2 12z',
  junk: 'M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2zM4 4l8 8',
  trash: 'M2.8 4.3h10.4M6 4.3V2.8h4v1.5M4 4.3l.6 8.9h6.8l.6-8.9',
  tag: 'M2.5 7.4V3.2c0-.4.3-.7.7-.7h4.2c.2 0 .4 0 .5.2l5.4 5.4c.3.3.3.7 0 1l-4.2 4.2c-.3.3-.7.3-1 0L2.7 7.9a.7.7 0 0 1-.2-.5zM5.3 5.3v.01',
  past: 'M2.6 8.6a5.5 5.5 0 1 0 1-4M2.5 2.5v2.7h2.7M8 5.2V8l2 1.3',
  search: 'M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5l3.5 3.5',
  cross: 'm4 4 8 8M12 4l-8 8',
  star: 'm8 2.2 1.8 3.7 4 .6-2.9 2.8.7 4L8 11.4l-3.6 1.9.7-4L2.2 6.5l4-.6z',
  save: 'M8 2.5v7.8M4.8 7.2 8 10.4l3.2-3.2M2.8 13.3h10.4',
  shield: 'M8 1.8 3 3.7v4c0 3 2.2 5.3 5 6.5 2.8-1.2 5-3.5 5-6.5v-4zM5.8 7.9l1.6 1.6 2.9-3.1',
  hidden: 'M2 8s2.2-4 6-4 6 4 6 4-2.2 4-6 4-6-4-6-4zM3 13 13 3',
  alert: 'M8 2.5 14 13H2zM8 6.5v3M8 11.3v.01',
  person:
    'M8 8.2a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM2.8 13.4c.6-2.3 2.7-3.4 5.2-3.4s4.6 1.1 5.2 3.4',
  check: 'm3 8.4 3.3 3.3L13 5',
  down: 'm3.5 6 4.5 4.5L12.5 6',
  back: 'M10.5 3.5 6 8l4.5 4.5',
  print: 'M4.5 6V2.5h7V6M4.5 11.5h-2V6h11v5.5h-2M4.5 9.5h7v4h-7z',
  lines: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  link: 'M6.8 9.2a2.6 2.6 0 0 0 3.7 0l2.3-2.3a2.6 2.6 0 0 0-3.7-3.7l-.9.9M9.2 6.8a2.6 2.6 0 0 0-3.7 0L3.2 9.1a2.6 2.6 0 0 0 3.7 3.7l.9-.9',
  copy: 'M5.5 5.5h7.7v7.7H5.5zM3 10.5h-.2V2.8h7.7V3',
} as const;

export type IconName = keyof typeof PATHS;

/** Hidden from screen readers, because a word with the same meaning is next to each icon. */
export function Icon({ name, ...more }: { name: IconName; class?: string }) {
  return (
    <svg class={`i ${more.class ?? ''}`.trim()} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** A link to an address, or to the results of a query. */
export function Link({ to, q, children }: RenderableProps<{ to?: string; q?: string }>) {
  return (
    <a class="link" href={to ?? pageAddress('/mail', { q })}>
      {children}
    </a>
  );
}

interface StripProps {
  readonly kind?: string;
  readonly icon: IconName;
  readonly role?: 'alert' | 'status';
  readonly children: ComponentChildren;
}

export function Strip({ kind, icon, role, children }: StripProps) {
  return (
    <p class={kind === undefined ? 'strip' : `strip ${kind}`} role={role}>
      <Icon name={icon} />
      <span>{children}</span>
    </p>
  );
}

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 22 22" aria-hidden="true">
      <path d="M3 9.2V4.4h3.2v2h3.2v-2h3.2v2h3.2v-2H19v4.8l-8 5z" />
      <path d="m3 13.4 8 5 8-5" />
    </svg>
  );
}

export function Brand({ home }: { home: boolean }) {
  const link = home ? { href: '/mail', 'aria-label': 'mailkeep: all mail' } : null;
  const Tag = home ? 'a' : 'span';
  return (
    <Tag class="brand" {...link}>
      <Mark />
      <span>mailkeep</span>
    </Tag>
  );
}

export function Command({ children }: { children: string }) {
  return (
    <p class="command">
      <span aria-hidden="true">$ </span>
      <code>{children}</code>
    </p>
  );
}

export function Fact({ name, children }: RenderableProps<{ name: string }>) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Links without an address are omitted. */
type PageLink = readonly [href: string | null, text: ComponentChildren, rel?: 'prev' | 'next'];

interface PageNavProps {
  readonly label?: string;
  readonly back: readonly PageLink[];
  readonly forward: readonly PageLink[];
}

/** Links to a list's adjacent pages. */
export function PageNav({
  label = 'Pages',
  back,
  forward,
  children,
}: RenderableProps<PageNavProps>) {
  const links = (pages: readonly PageLink[]) =>
    pages.map(
      ([href, text, rel]) =>
        href !== null && (
          <a key={href} class="btn" href={href} rel={rel}>
            {text}
          </a>
        ),
    );
  return (
    <nav class="pages" aria-label={label}>
      {links(back)}
      {children}
      <span class="spacer" />
      {links(forward)}
    </nav>
  );
}

/** The totals for a folder or run, worded as on the command line. */
/** @param listed what the service counts */
export function SumText({ listed, ...sums }: FolderTotals & { listed: number | ListedTotals }) {
  return <span>{consistencyText(sums, listed)}</span>;
}

/** `head` is the column that names the rows; other kinds are CSS classes for the cells. */
type Column<T> = readonly [
  name: string,
  cell: (row: T) => ComponentChildren,
  kind?: 'head' | 'r' | 'wrap' | 'sentence' | ((row: T) => string | undefined),
];

interface TableProps<T> {
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  /** In a narrow window, each cell shows its column's name. */
  readonly labelled?: boolean;
}

interface TablePanelProps<T> extends TableProps<T> {
  readonly title: ComponentChildren;
  readonly note?: ComponentChildren;
}

export function TablePanel<T>({ title, note, ...table }: TablePanelProps<T>) {
  return (
    <section class="panel">
      <h2>
        <span>{title}</span>
        {note !== undefined && <small>{note}</small>}
      </h2>
      <div class="scroll">
        <Table {...table} />
      </div>
    </section>
  );
}

/** A table whose cells are stacked in a narrow window. */
export function Table<T>({ columns, rows, labelled = true }: TableProps<T>) {
  return (
    <table class="stacks">
      <thead>
        <tr>
          {columns.map(([name, , kind]) => (
            <th key={name} scope="col" class={kind === 'r' ? 'r' : undefined}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, at) => (
          <tr key={at}>
            {columns.map(([name, cell, kind]) => {
              const label = { key: name, 'data-label': labelled ? name : undefined };
              if (kind === 'head')
                return (
                  <th scope="row" {...label}>
                    {cell(row)}
                  </th>
                );
              return (
                <td class={typeof kind === 'function' ? kind(row) : kind} {...label}>
                  {cell(row)}
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const FOLDER_ICONS: Readonly<Record<string, IconName>> = {
  '\\Sent': 'sent',
  '\\Drafts': 'draft',
  '\\Archive': 'box',
  '\\Junk': 'junk',
  '\\Trash': 'trash',
};

export function folderIcon(path: string, specialUse: string | null): IconName {
  return path.toUpperCase() === 'INBOX' ? 'inbox' : (FOLDER_ICONS[specialUse ?? ''] ?? 'folder');
}

export function Clock({ ms }: { ms: number }) {
  return (
    <time dateTime={new Date(ms).toISOString()}>
      <span class="clock">{clockText(ms)}</span>
    </time>
  );
}

/** When a message was received. @param date ISO 8601; null if the message has none */
export function Received({ date, day = false }: { date: string | null; day?: boolean }) {
  return date === null ? (
    <span class="when">no date</span>
  ) : (
    <Moment ms={Date.parse(date)} day={day} />
  );
}

/** A moment such as `20 Nov 2026 14:05` in the machine's zone; `day` omits the time. */
export function Moment({ ms, day = false }: { ms: number; day?: boolean }) {
  return (
    <time dateTime={new Date(ms).toISOString()}>
      {dayText(ms)}
      {!day && <span class="clock">{clockText(ms)}</span>}
    </time>
  );
}

/** Marks the matches in a text. @param current start of the match that a search within the text has reached */
export function markedParts(text: string, matches: readonly Range[], current?: number | null) {
  const parts: (string | VNode)[] = [];
  let at = 0;
  for (const { start, end } of matches) {
    parts.push(
      text.slice(at, start),
      <mark key={start} class={start === current ? 'current' : undefined}>
        {text.slice(start, end)}
      </mark>,
    );
    at = end;
  }
  return [...parts, text.slice(at)];
}

export function MarkedText({ text, matches }: { text: string; matches: readonly Range[] }) {
  return <bdi>{markedParts(text, matches)}</bdi>;
}

interface LinkedTextProps {
  readonly text: string;
  readonly matches: readonly Range[];
  readonly links: readonly Range[];
}

/** Marks the matches in a text of mail. Its links lead to a page that shows where they go. */
export function LinkedText({ text, matches, links }: LinkedTextProps) {
  const marked = (start: number, end: number) =>
    markedParts(
      text.slice(start, end),
      matches
        .filter((match) => match.start < end && match.end > start)
        .map((match) => ({
          start: Math.max(match.start, start) - start,
          end: Math.min(match.end, end) - start,
        })),
    );
  const parts: ComponentChildren[] = [];
  let at = 0;
  for (const { start, end } of links) {
    const href = `/away?to=${encodeURIComponent(text.slice(start, end).toWellFormed())}`;
    parts.push(
      ...marked(at, start),
      <a key={`link-${start}`} class="link" href={href} target="_blank" rel="noreferrer noopener">
        {marked(start, end)}
      </a>,
    );
    at = end;
  }
  return <bdi>{[...parts, ...marked(at, text.length)]}</bdi>;
}

export function senderText(from: SearchHit['line']['from']): string {
  if (from === null) return '(no sender)';
  return plainLine(from.name) || plainLine(from.address);
}
