import assert from 'node:assert/strict'

/** What a trace must record for `longestTask`. */
export const traced = { categories: ['toplevel', 'disabled-by-default-devtools.timeline'] }

type TraceEvent = { name: string; pid: number; tid: number; tdur?: number; args?: { name?: string } }

/** The processor time of the longest task on the page's main thread, in ms: the same on an idle and a busy machine. */
export function longestTask(trace: Buffer): number {
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] }
  const isMain = ({ name, args }: TraceEvent) => name === 'thread_name' && args?.name === 'CrRendererMain'
  const main = new Set(traceEvents.filter(isMain).map(({ pid, tid }) => `${pid} ${tid}`))
  const tasks = traceEvents.filter(({ name, pid, tid }) => name.endsWith('RunTask') && main.has(`${pid} ${tid}`))
  assert.ok(tasks.length > 10, `only ${tasks.length} tasks in the trace`)
  return Math.max(...tasks.map(({ tdur = 0 }) => tdur)) / 1_000
}
