import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { describe, expect, it } from 'vitest';
import { extractMessage } from '../../src/mail/extract-message.ts';
import type { Extraction } from '../../src/mail/extraction.ts';
import { DEFAULT_LIMITS } from '../../src/mail/extraction.ts';
import { openExtractorPool } from '../../src/mail/mime-threads.ts';
import { buildWorker } from './built-worker.ts';

const corpus = process.env.MAILKEEP_CORPUS;

function filesUnder(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesUnder(path) : [path];
  });
}

const wordsOf = (text: string) => new Set(text.toLowerCase().match(/[a-z0-9]{4,}/g) ?? []);

/** Share of the words of `text` that the extraction has anywhere. */
function found(text: string, extraction: Extraction): number {
  const words = [...wordsOf(text)];
  const have = wordsOf(`${extraction.body} ${extraction.subject} ${extraction.from}`);
  return words.length === 0 ? 1 : words.filter((word) => have.has(word)).length / words.length;
}

describe.skipIf(corpus === undefined)('real mail', () => {
  it('goes through, and hardly any of it loses what another parser finds', async () => {
    const files = filesUnder(corpus ?? '');
    const pool = openExtractorPool({ workers: 2, workerFile: await buildWorker() });
    const unparsed: string[] = [];
    const poorer: string[] = [];
    let next = 0;
    const lane = async () => {
      for (;;) {
        const index = next++;
        const file = files[index];
        if (file === undefined) return;
        const source = readFileSync(file);
        const entry = await pool.extract({ id: file, source, cut: false });
        if (entry.unparsed !== null) {
          unparsed.push(file);
          continue;
        }
        // Every fifth, the same ones each time: the other parser takes longer than all of ours.
        if (index % 5 !== 0) continue;
        const extraction = await extractMessage(source, false, DEFAULT_LIMITS);
        const other = await PostalMime.parse(source).catch(() => null);
        if (other !== null && found(other.text ?? '', extraction) < 0.8) poorer.push(file);
      }
    };
    await Promise.all(Array.from({ length: pool.width }, lane));
    await pool.close();
    expect(unparsed.length).toBeLessThanOrEqual(files.length * 0.001);
    expect(poorer.length).toBeLessThanOrEqual(files.length * 0.002);
  });
});
