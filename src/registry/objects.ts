/** What an object holds: commits of the open segment, a sealed segment, or a catalog. */
export type ObjectKind = 'chunk' | 'sealed' | 'snapshot';

/** What the name of an object stands for. It only moves on from left to right, and only what is live is relied on. */
export type ObjectState = 'uploading' | 'live' | 'condemned' | 'swept' | 'gone';
