import type { RequestFeed } from '../../requests/feed.ts'
import { type LineReader, readLines } from '../../requests/ring_reader.ts'
import { renderEdition } from '../config/config.ts'
import { changedNative } from '../native/health.ts'
import { lineSocket, type ProxySettings } from '../settings.ts'
import { rulesOf } from './outcomes.ts'
import { type LineContext, readLine } from './read_line.ts'
import { maxLineBytes } from './request_lines.ts'

type Listeners = {
  feed: Pick<RequestFeed, 'publish'>
  onServerChange?: (native: string) => void
  /** Lua has failed, and with it what needed it: a request, mostly. In HAProxy's words. */
  onLuaFault?: (fault: string) => void
  onDrop?: (count: number) => void
}

/**
 * All that HAProxy tells us of its own accord: its requests and connections, and servers of native backends that went up
 * or down. While the agent does not listen, HAProxy keeps the first of them and goes on serving.
 */
export function receiveEvents(
  settings: ProxySettings,
  context: Pick<LineContext, 'node' | 'generationAt'>,
  { feed, onServerChange = () => {}, onLuaFault = () => {}, onDrop }: Listeners,
): Promise<LineReader> {
  const { config, edition } = renderEdition(settings)
  const lineContext = { ...context, edition, rules: rulesOf(config) }
  const onLine = (text: string): boolean => {
    const line = readLine(text, lineContext)
    if (line) {
      feed.publish(line)
      return true
    }
    const native = changedNative(text)
    if (native) onServerChange(native)
    if (text.startsWith('Lua ')) {
      onLuaFault(text)
      return true
    }
    // What HAProxy says about itself has no tabs.
    return !text.includes('\t')
  }
  return readLines(lineSocket(settings), maxLineBytes, onLine, onDrop)
}
