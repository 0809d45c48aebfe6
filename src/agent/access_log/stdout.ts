import type { Sink } from './destination.ts'

/** Resolves when the reader has taken the lines, so that a slow reader causes drops instead of memory growth. */
export const stdoutSink = (stream: NodeJS.WritableStream = process.stdout): Sink => ({
  name: 'stdout',
  batch: 200,
  write: (lines) =>
    new Promise((resolve, reject) => {
      stream.write(`${lines.join('\n')}\n`, (error) => (error ? reject(error) : resolve()))
    }),
  close: async () => {},
})
