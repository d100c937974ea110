/**
 * Undocumented internals of mailparser 3.9: its parsing of part headers. The package is pinned to one version, and
 * test/mime/part-tree.test.ts fails if another one parses differently.
 */
declare module 'mailparser' {
  /** A part in mailsplit; values are decoded like headers. */
  interface SplitPart {
    readonly contentType: string | false;
    readonly charset: string | false;
    readonly disposition: string | false;
    readonly filename: string | false;
    readonly flowed: boolean;
    readonly delSp: boolean;
    readonly encoding: string | false;
    /** False before `parseHeaders`. */
    readonly headers: false | { getList(): { readonly key: string; readonly line: string }[] };
    /** The boundary between its parts. */
    readonly _boundary: Buffer | false;
    parseHeaders(): void;
    /** Adds lines of the header block, including line ends. */
    addHeaderChunk(lines: Buffer): void;
  }

  interface MailParser {
    readonly splitter: { readonly node: SplitPart };
  }
}

export {};
