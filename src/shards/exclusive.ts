import { z } from 'zod';
import { isHash, parseJson } from '../archive/format.ts';
import { DEFAULT_CODEC } from '../archive/payload.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import { openWriter, type Writer } from '../catalog/open-writer.ts';
import { finishPurge, journalForget, planForget } from '../verify/purge.ts';
import type { DecidedPurge } from './claims.ts';
import { readNote, writeNote } from './folder-note.ts';

/** What a purge removes. Sealed by a key of the fleet in the registry. */
const work = z.strictObject({
  messages: z.array(z.custom<string>(isHash)).readonly(),
});
export type PurgeWork = Readonly<z.output<typeof work>>;

export function encodeWork(content: PurgeWork): Buffer {
  return Buffer.from(JSON.stringify(content), 'utf8');
}

/** @throws ZodError if it is not what `encodeWork` returned */
export function decodeWork(bytes: Buffer): PurgeWork {
  return work.parse(parseJson(bytes.toString('utf8')));
}

type ExclusiveContext = Pick<
  EngineContext,
  'globals' | 'environment' | 'signal' | 'now' | 'report'
>;

/**
 * Carries out purges in a folder whose daemon is stopped, in order. A folder from the bucket may have the commit of a
 * purge and all the bytes, so what was not recorded as done is done again.
 *
 * @param unseal decrypts the work of a purge
 * @returns the number of purges that are done
 * @throws errors of the archive: purges before the failed one are recorded as done
 */
export async function carryOutPurges(
  context: ExclusiveContext,
  dir: string,
  purges: readonly DecidedPurge[],
  unseal: (sealed: Buffer) => Buffer,
): Promise<number> {
  const note = readNote(dir);
  if (note === undefined) throw new Error(`${dir} was not taken over`);
  let { done } = note;
  for (const { number, work: sealed } of purges) {
    if (number <= done) continue;
    await forget(context, dir, decodeWork(unseal(sealed)).messages);
    done = number;
    await writeNote(dir, { ...note, done });
  }
  return done;
}

async function forget(
  context: ExclusiveContext,
  dir: string,
  messages: readonly string[],
): Promise<void> {
  // One that was interrupted comes first. It closes the writer, because the catalog is rebuilt.
  await withWriter(context, dir, (writer) => finishPurge(context, writer));
  await withWriter(context, dir, async (writer) => {
    const plan = await planForget(
      writer,
      messages.map((message) => ({ message })),
      context.signal,
    );
    if (plan.facts.length === 0) return;
    await journalForget(writer, plan);
    await finishPurge(context, writer);
  });
}

async function withWriter(
  context: ExclusiveContext,
  dir: string,
  act: (writer: Writer) => Promise<unknown>,
): Promise<void> {
  const writer = await openWriter(context, dir, DEFAULT_CODEC);
  try {
    await act(writer);
  } finally {
    await writer.close();
  }
}
