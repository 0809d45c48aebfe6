import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { Link } from 'react-router'
import { queries } from '../../api/queries.ts'
import { Icon, type IconName } from '../../ui/icons.tsx'
import { Ago } from '../../ui/time.tsx'
import { counted, type Details, useNames, withNames } from './words.tsx'

type Said = { tone: 'plain' | 'warned' | 'allowed'; icon: IconName; title: ReactNode; children: ReactNode }

/** At the top: what is in force now, and what comes next. */
export function Answer({ rollout }: { rollout: Details }) {
  const now = useNow(rollout.watched_until !== null)
  const nameOf = useNames()
  const { tone, icon, title, children } = said(rollout, now, nameOf)
  return (
    <div className={`note ${tone}`}>
      <Icon name={icon} />
      <div>
        {/* Excludes the countdown, which screen readers would announce every second. */}
        <p className="strong" role="status">
          {title}
        </p>
        <p>{children}</p>
      </div>
    </div>
  )
}

/** The current time, updated every second while something counts down. */
export function useNow(isCounting: boolean): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    if (!isCounting) return
    const timer = setInterval(() => setNow(Date.now()), 1_000)
    return () => clearInterval(timer)
  }, [isCounting])
  return now
}

function said(rollout: Details, now: number, nameOf: ReturnType<typeof useNames>): Said {
  const { state, nodes, reason, ended_at, cell } = rollout
  const having = nodes.filter(({ has_changes }) => has_changes).length
  if (state === 'halted') return halted(rollout, nameOf)
  if (state === 'waiting')
    return {
      ...{ tone: 'plain', icon: 'clock', title: `On ${having} of ${counted(nodes.length, 'node')}` },
      children: (
        <>
          It is for wave 0 only until an earlier rollout of this account in {cell} has reached all waves. Then it is
          watched. <Earlier rollout={rollout} />
        </>
      ),
    }
  if (state === 'releasing')
    return {
      ...{ tone: 'plain', icon: 'rotate', title: `On ${having} of ${counted(nodes.length, 'node')}, without a watch` },
      children: `It goes to all waves now, and nothing stops it.${reason ? ` Reason: ${reason}` : ''}`,
    }
  if (state !== 'released') return watching(rollout, now)
  const isEverywhere = having === nodes.length
  return {
    ...{ tone: isEverywhere ? 'allowed' : 'plain', icon: isEverywhere ? 'allowed' : 'clock' },
    title: isEverywhere ? 'In force everywhere' : `On ${having} of ${counted(nodes.length, 'node')}`,
    children: (
      <>
        Every wave got it
        {ended_at && (
          <>
            {' '}
            <Ago at={ended_at} />
          </>
        )}
        . It cannot be halted any more; a revert is a change like any other.
      </>
    ),
  }
}

function watching(rollout: Details, now: number): Said {
  const { wave, waves, nodes, watched_until: until } = rollout
  const having = nodes.filter(({ has_changes }) => has_changes).length
  const title = `On ${having} of ${counted(nodes.length, 'node')}`
  const next = (wave ?? 0) + 1 < waves ? `wave ${(wave ?? 0) + 1} gets it` : 'it is released'
  const seconds = until === null ? 0 : Math.ceil((Date.parse(until) - now) / 1_000)
  if (until === null)
    return {
      ...{ tone: 'plain', icon: 'rotate', title },
      children: `The watch begins when every live node of wave ${wave} has said that it has it.`,
    }
  if (seconds > 0)
    return {
      ...{ tone: 'plain', icon: 'clock', title },
      children: (
        <>
          Watched for <span className="number">{seconds}</span> more {seconds === 1 ? 'second' : 'seconds'}. Then {next}
          , unless something below halts it.
        </>
      ),
    }
  return {
    ...{ tone: 'plain', icon: 'clock', title },
    children: `The watch has taken its time. As soon as every node of wave ${wave} reports and is as it should be, ${next}. While hardly any request ends there, that takes up to 90 seconds more.`,
  }
}

function halted({ nodes, reason, cell, evidence }: Details, nameOf: ReturnType<typeof useNames>): Said {
  const back = nodes.filter(({ has_previous }) => has_previous).length
  const unknown = nodes.filter(({ has_previous }) => !has_previous).map(({ name }) => name)
  const first = evidence[0]?.sentence === reason ? undefined : evidence[0]?.sentence
  return {
    ...{ tone: 'warned', icon: 'halt', title: `Halted: ${withNames(reason ?? 'no reason was given', nameOf)}` },
    children: (
      <>
        {first && `${withNames(first, nameOf)}. `}
        {unknown.length === 0
          ? `${nodes.length === 1 ? 'The node has' : `All ${back} nodes have`} what was there before the changes.`
          : `${back} of ${counted(nodes.length, 'node')} ${back === 1 ? 'has' : 'have'} what was there before the changes. It is not known yet what ${unknown.join(', ')} ${unknown.length === 1 ? 'has' : 'have'}.`}{' '}
        The changes are stored, and no node is to have them. What this account changes in {cell} waits here until it is
        resumed or released.
      </>
    ),
  }
}

/** The rollout before this one. */
function Earlier({ rollout: { id, cell } }: { rollout: Details }) {
  const halted = useQuery(queries.haltedRollouts()).data?.rollouts ?? []
  const newest = useQuery(queries.rollouts()).data?.rollouts ?? []
  const earlier = [...halted, ...newest].find(
    (each) => each.cell === cell && each.id !== id && each.state !== 'released' && each.state !== 'waiting',
  )
  return earlier ? <Link to={`/rollouts/${earlier.id}`}>Show the earlier rollout</Link> : null
}
