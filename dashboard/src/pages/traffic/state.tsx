import { Button } from '../../ui/button.tsx'
import { Icon } from '../../ui/icons.tsx'
import { State } from '../../ui/state.tsx'
import { mostRows } from './log.ts'
import type { Traffic } from './use_traffic.ts'

const count = new Intl.NumberFormat('en')
const requests = (total: number): string => `${count.format(total)} ${total === 1 ? 'request' : 'requests'}`

const states = {
  connecting: { health: 'unknown', words: 'Connecting…' },
  live: { health: 'up', words: 'Live' },
  lost: { health: 'partial', words: 'Connection lost, trying again…' },
  crowded: { health: 'partial', words: 'Too many are watching, trying again…' },
  refused: { health: 'down', words: 'Not live' },
  past: { health: 'unknown', words: 'Past requests' },
} as const

/** Whether the list is live. */
export function LiveState({ state, isPaused }: { state: Traffic['state']; isPaused: boolean }) {
  const { health, words } =
    state === 'live' && isPaused ? { health: 'unknown' as const, words: 'Paused' } : states[state]
  return (
    <span role="status" aria-label="Live state">
      <State health={health}>{words}</State>
    </span>
  )
}

type Props = { traffic: Traffic; isHeld: boolean; onShow: () => void; onResume: () => void }

/** Which requests are missing from the list, and why. */
export function Notices({ traffic, isHeld, onShow, onResume }: Props) {
  const { waiting, dropped, notKept, state } = traffic
  const isLost = state === 'lost' || state === 'crowded'
  if (!isLost && dropped === 0 && notKept === 0 && !(isHeld && waiting > 0)) return null
  return (
    <div className="notices">
      {isHeld && waiting > 0 && (
        <Button
          isSmall
          icon="up"
          onPress={() => {
            onResume()
            onShow()
          }}
        >
          {waiting >= mostRows ? `More than ${count.format(mostRows)} new requests` : `${requests(waiting)} new`}
        </Button>
      )}
      {isLost && (
        <p className="notice" role="status">
          <Icon name="warned" />
          New requests are not shown until the connection is back. Edges keep enforcing. Requests refused in the
          meantime are loaded when the connection is back.
        </p>
      )}
      {dropped > 0 && (
        <p className="notice" role="status">
          <Icon name="warned" />
          {requests(dropped)} came too fast to be shown. Choose an edge, an address or a verdict to see fewer.
        </p>
      )}
      {notKept > 0 && (
        <p className="notice">
          <Icon name="warned" />
          {requests(notKept)} of the last days were not kept, because there were too many.
        </p>
      )}
    </div>
  )
}
