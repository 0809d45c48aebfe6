import assert from 'node:assert/strict'

/** What a trace must record for `longestTask`. */
export const traced = { categories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline', 'v8'] }

type TraceEvent = {
  name: string
  pid: number
  tid: number
  ts: number
  dur?: number
  tdur?: number
  args?: { name?: string }
}
const milliseconds = ({ tdur = 0 }: TraceEvent) => tdur / 1_000

/**
 * The longest task on the page's main thread by processor time, in ms, which is the same on an idle and a busy machine;
 * and what took most of it, to explain why it was too long.
 */
export function longestTask(trace: Buffer): { task: number; parts: string } {
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] }
  const isMain = ({ name, args }: TraceEvent) => name === 'thread_name' && args?.name === 'CrRendererMain'
  const main = new Set(traceEvents.filter(isMain).map(({ pid, tid }) => `${pid} ${tid}`))
  const tasks = traceEvents.filter(({ name, pid, tid }) => name.endsWith('RunTask') && main.has(`${pid} ${tid}`))
  assert.ok(tasks.length > 10, `only ${tasks.length} tasks in the trace`)
  const longest = tasks.reduce((most, each) => (milliseconds(each) > milliseconds(most) ? each : most))
  const { pid, tid, ts, dur = 0 } = longest
  const parts = traceEvents
    .filter(
      (each) => each.pid === pid && each.tid === tid && each.ts > ts && each.ts < ts + dur && milliseconds(each) >= 5,
    )
    .sort((one, other) => milliseconds(other) - milliseconds(one))
    .map((each) => `${each.name} ${milliseconds(each).toFixed(0)}`)
  return { task: milliseconds(longest), parts: parts.slice(0, 12).join(', ') }
}
