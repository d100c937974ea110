/** The part of libmime (which ships no types) that this room uses, as of 5.4. */
declare module 'libmime' {
  /** The charsets and transfer encodings of mail headers; see RFC 2047 and RFC 2231. */
  export class Libmime {
    constructor(options?: object);
    /** Decodes every encoded word in a header value. */
    decodeWords(value: string): string;
    /** Undoes the soft line breaks of format=flowed (RFC 3676). */
    decodeFlowed(text: string, deleteSpace: boolean): string;
    /** Canonical name of a charset; unknown ones come back in upper case. */
    normalizeCharset(charset: string): string;
    /** Value and parameters of a structured header such as Content-Type, RFC 2231 continuations joined. */
    parseHeaderValue(value: string): { value: string | false; params: Record<string, string> };
    /** File name extension to MIME type. */
    detectMimeType(extension: string): string;
  }
  const libmime: Libmime;
  export default libmime;
}

declare module 'libmime/lib/charset.js' {
  const charset: {
    /** Decodes bytes, ISO-2022-JP and EUC-JP included; an unknown charset is read as UTF-8. */
    decode(bytes: Buffer, charset?: string): string;
  };
  export default charset;
}
