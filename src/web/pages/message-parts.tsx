import type { VNode } from 'preact';
import type { RemotePictures } from '../../mime/worker-protocol.ts';
import { bytes, count, counted } from '../../wording/amounts.ts';
import { Icon } from './icons.tsx';
import type { MessagePaneProps } from './message-props.ts';
import { Moment } from './moment.tsx';

/** How many pictures of other servers stay where they are. No button loads them. */
export function Remote({ remote }: { readonly remote: RemotePictures | null }): VNode | null {
  const hosts = Object.entries(remote ?? {});
  const all = hosts.reduce((sum, [, pictures]) => sum + pictures, 0);
  if (all === 0) return null;
  return (
    <div class="strip blocked">
      <Icon name="hidden" />
      <details>
        <summary>
          <b>{counted(all, 'picture')} on other servers</b> {all === 1 ? 'was' : 'were'} not loaded,
          and never {all === 1 ? 'is' : 'are'}.
        </summary>
        <ul>
          {hosts.map(([host, pictures]) => (
            <li key={host}>
              <bdi>{host}</bdi>: {count(pictures)}
            </li>
          ))}
        </ul>
      </details>
    </div>
  );
}

/** The attachments as tiles, each a link that saves it. */
export function Attachments({ id, read, texts }: MessagePaneProps): VNode | null {
  const attachments = read.reading?.attachments ?? [];
  if (attachments.length === 0) return null;
  return (
    <ul class="atts" aria-label="Attachments">
      {attachments.map(({ number, filename, contentType, size, inline }) => {
        const text = texts.get(number);
        return (
          <li key={number}>
            <a class="att" href={`/m/${id}/attachments/${number}`} download>
              <span class="ext" aria-hidden="true">
                {extension(filename)}
              </span>
              <span class="nm">
                <bdi>{filename ?? '(no name)'}</bdi>
              </span>
              <span class="meta">
                <bdi>{contentType}</bdi> · {bytes(size)}
                {inline && ' · in the text'}
                {text?.status === 'done' && ' · text searchable'}
                {text?.status === 'failed' && ` · not searchable (${text.reason ?? 'unreadable'})`}
              </span>
            </a>
          </li>
        );
      })}
    </ul>
  );
}

/** True each time: the bytes were read for this page, and their hash was compared. */
export function Proof({ id, conversation }: Pick<MessagePaneProps, 'id' | 'conversation'>): VNode {
  const { firstSeen, places } = conversation.own.line;
  return (
    <footer class="proof">
      <Icon name="shield" />
      <span>
        Read back complete: SHA-256{' '}
        <span class="mono" title={id}>
          {id.slice(0, 8)}…{id.slice(-4)}
        </span>
      </span>
      {firstSeen !== null && (
        <span>
          · stored <Moment ms={Date.parse(firstSeen)} />
        </span>
      )}
      <span>· {counted(places.length, 'place')}</span>
    </footer>
  );
}

function extension(filename: string | null): string {
  const end = (filename ?? '').split('.').at(-1) ?? '';
  return /^[A-Za-z0-9]{1,5}$/.test(end) && end !== filename ? end.toUpperCase() : '';
}
