import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import type { Shapes } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { Icon } from '../ui/icons.tsx'
import { NodeBars } from './node_bars.tsx'
import { useOpenRollouts } from './use_open_rollouts.ts'

const count = new Intl.NumberFormat('en')

export function nodesIn({ edge_nodes, newest_generation }: Shapes['EdgeNodeList']) {
  const live = edge_nodes.filter((node) => node.live)
  const current = live.filter((node) => node.applied_generation >= newest_generation).length
  return { live: live.length, current, behind: live.length - current, offline: edge_nodes.length - live.length }
}

const openWords: Record<string, string> = {
  halted: 'A change was halted',
  watching: 'A change is rolling out',
  releasing: 'A change is rolling out',
  waiting: 'A change waits',
}

type Props = {
  /** In the bar of a phone there is room for the bars only. */
  isShort?: boolean
}

/** On every page: whether all nodes enforce the newest state. For admins, since only they may list the nodes. */
export function LiveNodes({ isShort = false }: Props) {
  const nodes = useQuery(queries.nodes()).data
  const { rollouts } = useOpenRollouts()
  if (!nodes || nodes.edge_nodes.length === 0) return null
  const { live, current, behind, offline } = nodesIn(nodes)
  // A node of a later wave is up to date without the change: it is not to have it yet.
  const [open] = rollouts
  const sentence =
    live === 0
      ? 'No node is live'
      : open
        ? openWords[open.state]
        : `Live on ${current} of ${live} ${live === 1 ? 'node' : 'nodes'}`
  return (
    <Link to={open ? `/rollouts/${open.id}` : '/nodes'} className={isShort ? 'live-bars show-small' : 'live-nodes'}>
      {open ? (
        // A bar would say that a node is up to date, which is not known here.
        <Icon name={open.state === 'halted' ? 'halt' : 'rollouts'} />
      ) : (
        <NodeBars current={current} behind={behind} offline={offline} />
      )}
      {isShort ? (
        <span className="for-readers">{sentence}</span>
      ) : (
        <span>
          <b>{sentence}</b>
          Generation {count.format(nodes.newest_generation)}
        </span>
      )}
    </Link>
  )
}
