/**
 * Internals of mailparser 3.9 that parse part headers. They are undocumented, so the package is pinned to one version,
 * and test/mime/part-tree.test.ts fails if another version parses differently.
 */
declare module 'mailparser' {
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
    readonly _boundary: Buffer | false;
    parseHeaders(): void;
    /** @param lines of the header block, with line ends */
    addHeaderChunk(lines: Buffer): void;
  }

  interface MailParser {
    readonly splitter: { readonly node: SplitPart };
  }
}

export {};
