import type { Reader } from '../../../engine/archive/reader.ts';
import { OPERATOR_NAMES } from '../../../search/operators.ts';

interface Value {
  readonly value: string;
  readonly description?: string;
}

/** Names that the archive knows, for completion. */
export interface ArchiveValues {
  mailboxes(): Value[];
  folders(): Value[];
  /** What a query may be made of. */
  query(): Value[];
}

const STATES = 'unread read starred answered forwarded draft deleted';

/** @param open the archive; whatever it throws, nothing is offered then */
export function archiveValues(open: () => Reader): ArchiveValues {
  const asked = <T>(ask: (reader: Reader) => T[]): T[] => {
    try {
      const reader = open();
      try {
        return ask(reader);
      } finally {
        reader.close();
      }
    } catch {
      // Nobody asked a question that an error would answer: somebody pressed a key.
      return [];
    }
  };
  const mailboxes = () =>
    asked(({ catalog }) => catalog.folders.mailboxes().map(({ address }) => ({ value: address })));
  const folders = () =>
    asked(({ catalog }) => {
      const paths = catalog.folders.all({ gone: false }).map(({ folder }) => folder);
      return [...new Set(paths)].map((value) => ({ value }));
    });
  const under = (operator: string, values: readonly Value[]) =>
    values.map(({ value }) => ({ value: `${operator}:${value}` }));
  return {
    mailboxes,
    folders,
    query: () => [
      ...OPERATOR_NAMES.map((name) => ({ value: `${name}:` })),
      ...STATES.split(' ').map((state) => ({ value: `is:${state}` })),
      ...['attachment', 'inline'].map((what) => ({ value: `has:${what}` })),
      ...under('in', folders()),
      ...under('mailbox', mailboxes()),
    ],
  };
}
