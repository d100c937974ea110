import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { GeneratedBlock } from '../../src/sandbox/seed.ts';

/** Where sources come from before they are repeated and given attachments. */
export interface SourceStock {
  /** For the head of the report. */
  readonly name: string;
  readonly size: number;
  /** Whether the sources carry as many attachments as real mailboxes do; a corpus made for research has few. */
  readonly hasAttachments: boolean;
  source(index: number): Buffer;
}

/** All regular files below `folder/mail` (or `folder` itself, where there is no such), in path order. */
export function corpusStock(folder: string): SourceStock {
  const root = readdirSync(folder).includes('mail') ? join(folder, 'mail') : folder;
  const files = readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  return {
    name: `real mail (${files.length} files of MAILKEEP_CORPUS)`,
    size: files.length,
    hasAttachments: false,
    source(index) {
      const file = files[index];
      if (file === undefined) throw new RangeError(`no source ${index}`);
      return readFileSync(file);
    },
  };
}

/** The mail that the sandbox makes up; as many different messages as are asked for. */
export function generatedStock(count: number, seed: number): SourceStock {
  const block = new GeneratedBlock({
    seed,
    documentSeed: seed,
    count,
    owner: 'ada@example.org',
    newest: Date.UTC(2026, 0, 5),
  });
  return {
    name: 'the generator of the sandbox (MAILKEEP_CORPUS is not set)',
    size: count,
    hasAttachments: true,
    source: (index) => block.read(index),
  };
}
