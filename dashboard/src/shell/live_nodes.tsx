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
  // A node that rejected a record has read everything, but keeps its previous state.
  const current = live.filter(
    ({ applied_generation, status }) => applied_generation >= newest_generation && status?.code !== 'record_refused',
  ).length
  // Without a connection to NATS, no node counts as live, because their state is unknown.
  const isBlind = edge_nodes.some(({ status }) => status?.code === 'control_plane_blind')
  return {
    live: live.length,
    current,
    behind: live.length - current,
    offline: edge_nodes.length - live.length,
    isBlind,
  }
}

const openWords: Record<string, string> = {
  halted: 'A change was halted',
  watching: 'A change is rolling out',
  releasing: 'A change is rolling out',
  waiting: 'A change waits',
}

type Props = {
  /** A phone's bar has room for the node bars only. */
  isShort?: boolean
}

/** On every page: whether all nodes enforce the latest state. For admins, because only they may list nodes. */
export function LiveNodes({ isShort = false }: Props) {
  const { data: nodes, isError } = useQuery(queries.nodes())
  const { rollouts } = useOpenRollouts()
  if (!nodes || nodes.edge_nodes.length === 0) return null
  const { live, current, behind, offline, isBlind } = nodesIn(nodes)
  // A node of a later wave is up to date without the change, which it should not have yet.
  const [open] = rollouts
  const sentence =
    isError || isBlind
      ? 'No news from nodes'
      : live === 0
        ? 'No node is live'
        : open
          ? openWords[open.state]
          : `Live on ${current} of ${live} ${live === 1 ? 'node' : 'nodes'}`
  return (
    <Link to={open ? `/rollouts/${open.id}` : '/nodes'} className={isShort ? 'live-bars show-small' : 'live-nodes'}>
      {open ? (
        // A bar would claim that a node is up to date, which is unknown here.
        <Icon name={open.state === 'halted' ? 'halt' : 'rollouts'} />
      ) : (
        <NodeBars current={isError ? 0 : current} behind={isError ? 0 : behind} offline={offline} />
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
