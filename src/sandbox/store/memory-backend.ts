import type { FileRange } from '../../mailbox-surface/reply.ts';
import type { SourceBlock, StoreBackend } from './backend.ts';

interface PlacedBlock {
  readonly first: number;
  readonly block: SourceBlock;
}

/** Keeps nothing but sources: the state dies with the process. */
export class MemoryBackend implements StoreBackend {
  /** Blocks of many sources, in order of their first number. */
  readonly #blocks: PlacedBlock[] = [];
  /** Blocks of one source, which can be let go of. */
  readonly #singles = new Map<number, SourceBlock>();
  readonly #documents = new Map<string, Map<string, unknown>>();
  #nextSource = 1;

  mailboxes(): [] {
    return [];
  }

  folders(): [] {
    return [];
  }

  messages(): [] {
    return [];
  }

  *documents(kind: string): Generator<{ id: string; body: unknown }> {
    for (const [id, body] of this.#documents.get(kind) ?? []) yield { id, body };
  }

  addMailbox(): void {}
  addFolder(): void {}
  changeFolder(): void {}
  removeFolder(): void {}
  addMessage(): void {}
  setFlags(): void {}
  removeMessage(): void {}

  putDocument(kind: string, id: string, body: unknown): void {
    const documents = this.#documents.get(kind) ?? new Map<string, unknown>();
    this.#documents.set(kind, documents.set(id, body));
  }

  removeDocument(kind: string, id: string): void {
    this.#documents.get(kind)?.delete(id);
  }

  addSources(block: SourceBlock): number {
    const first = this.#nextSource;
    this.#nextSource += block.count;
    if (block.count === 1) this.#singles.set(first, block);
    else if (block.count > 1) this.#blocks.push({ first, block });
    return first;
  }

  releaseSource(source: number): void {
    this.#singles.delete(source);
  }

  sourceSize(source: number): number {
    const { block, number } = this.#locate(source);
    return block.size(number);
  }

  sourceReceived(source: number): number {
    const { block, number } = this.#locate(source);
    return block.received(number);
  }

  readSource(source: number): Buffer {
    const { block, number } = this.#locate(source);
    return block.read(number);
  }

  sourceFile(source: number): FileRange | null {
    const { block, number } = this.#locate(source);
    return block.file(number);
  }

  atomically<T>(act: () => T): T {
    return act();
  }

  close(): void {}

  #locate(source: number): { readonly block: SourceBlock; readonly number: number } {
    const single = this.#singles.get(source);
    if (single !== undefined) return { block: single, number: 0 };
    let low = 0;
    let high = this.#blocks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#blocks[middle]?.first ?? 0) <= source) low = middle + 1;
      else high = middle;
    }
    const placed = this.#blocks[low - 1];
    if (placed === undefined || source >= placed.first + placed.block.count) {
      throw new RangeError(`no source ${source}`);
    }
    return { block: placed.block, number: source - placed.first };
  }
}
