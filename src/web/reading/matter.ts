/** Something about the archive that a person should know of, and what to do about it. */
export interface Matter {
  readonly level: 'bad' | 'warn';
  readonly title: string;
  readonly text: string;
  /** What may be done about it on the command line, without the program's name; null where time alone helps. */
  readonly command: string | null;
  /** Where more is shown. */
  readonly link: { readonly href: string; readonly text: string } | null;
}
