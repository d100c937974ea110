/** The parts of libmime 5.4 used here. The package has no types of its own. */
declare module 'libmime' {
  /** Decodes charsets and transfer encodings of mail headers (RFC 2047, RFC 2231). */
  export class Libmime {
    constructor(options?: object);
    decodeWords(value: string): string;
    decodeWord(charset: string, encoding: string, text: string): string;
    /** Removes the soft line breaks of format=flowed (RFC 3676). */
    decodeFlowed(text: string, deleteSpace: boolean): string;
    /** Returns the value and parameters of a header such as Content-Type, with RFC 2231 continuations joined. */
    parseHeaderValue(value: string): { value: string | false; params: Record<string, string> };
    detectMimeType(extension: string): string;
  }
  const libmime: Libmime & { readonly Libmime: typeof Libmime };
  export default libmime;
}
