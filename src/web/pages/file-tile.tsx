import type { VNode } from 'preact';
import { bytes, count, counted } from '../../wording/amounts.ts';
import type { FileTile } from '../reading/files-list.ts';
import { NO_TEXT, shownName, typeLabel } from './file-words.ts';
import { senderText } from './mail-row.tsx';
import { Marked } from './marked.tsx';
import { Moment } from './moment.tsx';

/** A content as a small page of its text, or its picture. Its name, sender, date and size say it in words. */
export function Tile({
  tile,
  href,
  chosen,
  q,
}: {
  readonly tile: FileTile;
  readonly href: string;
  readonly chosen: boolean;
  /** The moment of the query, for its picture. */
  readonly q: string;
}): VNode {
  const { filename, type, size, from, date, endedAt, messages } = tile;
  return (
    <li>
      <a
        class={endedAt === null ? 'tile' : 'tile ended'}
        href={href}
        aria-current={chosen ? 'true' : undefined}
      >
        <span class="sheet" aria-hidden="true">
          <Sheet tile={tile} q={q} />
          <span class="ty">{typeLabel(type, filename)}</span>
        </span>
        <span class="nm">
          <bdi>{shownName(filename)}</bdi>
        </span>
        <span class="meta">
          <bdi>{senderText(from)}</bdi>
        </span>
        <span class="meta when">
          {bytes(size)}
          {date !== null && (
            <>
              {' · '}
              <Moment ms={date} day />
            </>
          )}
          {endedAt !== null && ', deleted'}
          {messages.count > 1 && (
            <>
              {' · '}
              <span aria-hidden="true">×{count(messages.count)}</span>
              <span class="vh">in {counted(messages.count, 'message')}</span>
              {!messages.complete && ' or more'}
            </>
          )}
        </span>
      </a>
    </li>
  );
}

function Sheet({
  tile: { sheet, hash },
  q,
}: {
  readonly tile: FileTile;
  readonly q: string;
}): VNode {
  switch (sheet.kind) {
    case 'picture':
      return <Picture hash={hash} q={q} />;
    case 'text':
      return (
        <span class="small-page" dir="auto">
          <Marked text={sheet.excerpt.text} matches={sheet.excerpt.matches} />
        </span>
      );
    case 'none':
      return (
        <span class="none">
          {sheet.why !== 'later' && 'No preview'}
          {sheet.why !== 'later' && <br />}
          {NO_TEXT[sheet.why]}
        </span>
      );
  }
}

/** A picture over what is seen where it is not shown: browsers draw nothing for one without a text that they cannot have. */
export function Picture({ hash, q }: { readonly hash: string; readonly q: string }): VNode {
  const search = q === '' ? '' : `?${new URLSearchParams({ q })}`;
  return (
    <>
      <span class="none">{NO_TEXT.picture}</span>
      <img src={`/files/${hash}/preview${search}`} alt="" loading="lazy" decoding="async" />
    </>
  );
}
