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
  /** Lua has failed, and usually a request with it. The text is HAProxy's. */
  onLuaFault?: (fault: string) => void
  onDrop?: (count: number) => void
}

/**
 * Receives everything that HAProxy reports on its own: requests and connections, and native servers that go up or down.
 * While no agent listens, HAProxy keeps the oldest lines and continues to serve.
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
    // HAProxy's own messages contain no tabs.
    return !text.includes('\t')
  }
  return readLines(lineSocket(settings), maxLineBytes, onLine, onDrop)
}
