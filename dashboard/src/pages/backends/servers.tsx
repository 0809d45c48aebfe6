import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Shapes } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { queries, useRefresh } from '../../api/queries.ts'
import { Badge } from '../../ui/badge.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { DataTable } from '../../ui/data_table.tsx'
import type { MenuEntry } from '../../ui/menu.tsx'
import { MoreMenu } from '../../ui/more_menu.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { Section } from '../../ui/section.tsx'
import { type Status, StatusCell } from '../../ui/status.tsx'
import type { Column } from '../../ui/table_model.ts'
import { BackendForm } from '../edges/backends.tsx'
import { type Backend, BackendLink, nameOf, type Server } from './backend.tsx'
import { changeWeights, takeOut, usualWeight, type Weights } from './members.ts'
import { membersOf } from './use_uses.ts'

type Row = {
  id: string
  server: Server | undefined
  response: Shapes['HttpResponseBackend'] | undefined
  place: number
}
type Ask = { what: 'drain' | 'take out'; row: Row } | { what: 'edit'; server: Server }

const percent = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 })
const textOf = ({ server, id }: Row): string => server?.address ?? id

/** The servers of a backend: itself or the members of a group, with their shares. */
export function Servers({ backend }: { backend: Backend }) {
  const servers = useQuery(queries.backends()).data
  const responses = useQuery(queries.responseBackends()).data
  const mayChange = useMayChange()
  const refresh = useRefresh()
  const [ask, setAsk] = useState<Ask>()
  const weigh = useMutation({
    mutationFn: ({ id, weightOf }: { id: string; weightOf: (weights: Weights) => number }) =>
      changeWeights(backend.backend.id, (weights) => ({ ...weights, [id]: weightOf(weights) })),
    onSettled: () => refresh('/backends'),
  })
  const drain = (id: string) => weigh.mutateAsync({ id, weightOf: () => 0 })
  const ids = backend.kind === 'static' ? [backend.backend.id] : membersOf(backend)
  const rows = ids.map(
    (id, place): Row => ({
      ...{ id, place },
      server: backend.kind === 'static' ? backend.backend : servers?.find((each) => each.id === id),
      response: responses?.find((each) => each.id === id),
    }),
  )
  const entriesFor = (row: Row): MenuEntry[] => {
    const { server } = row
    const edit: MenuEntry[] = server
      ? [{ label: 'Edit server…', icon: 'edit', onAction: () => setAsk({ what: 'edit', server }) }]
      : []
    if (backend.kind === 'static') return edit
    const out: MenuEntry = {
      ...{ label: 'Take out of the group…', icon: 'trash', isDanger: true },
      onAction: () => setAsk({ what: 'take out', row }),
    }
    if (backend.kind !== 'weighted') return [...edit, out]
    const weights = backend.backend.backends
    const flow: MenuEntry = !weights[row.id]
      ? { label: 'Send traffic again', onAction: () => weigh.mutate({ id: row.id, weightOf: usualWeight }) }
      : isLast(weights, row.id)
        ? { label: 'Drain…', onAction: () => setAsk({ what: 'drain', row }) }
        : { label: 'Drain', onAction: () => weigh.mutate({ id: row.id, weightOf: () => 0 }) }
    return [flow, ...edit, out]
  }
  return (
    <Section title="Servers" note={ids.length}>
      {weigh.isError && <ProblemNote error={weigh.error} />}
      <DataTable
        label="Servers"
        rows={rows}
        keyOf={({ id }) => id}
        columns={columnsFor(backend, mayChange ? entriesFor : undefined)}
        isTwoLine
      />
      {ask && <Asked ask={ask} backend={backend} drain={drain} onClose={() => setAsk(undefined)} />}
    </Section>
  )
}

type AskedProps = { ask: Ask; backend: Backend; drain: (id: string) => Promise<void>; onClose: () => void }

function Asked({ ask, backend, drain, onClose }: AskedProps) {
  const refresh = useRefresh()
  if (ask.what === 'edit') return <BackendForm backend={ask.server} onClose={onClose} />
  const { id } = ask.row
  if (ask.what === 'drain')
    return (
      <Confirm
        canDraft
        title={`Drain ${textOf(ask.row)}?`}
        action="Drain"
        act={() => drain(id)}
        onDone={onClose}
        onClose={onClose}
      >
        <p>It is the last server of {nameOf(backend)} that gets traffic. New requests will be answered with 503.</p>
      </Confirm>
    )
  return (
    <Confirm
      canDraft
      title={`Take ${textOf(ask.row)} out of ${nameOf(backend)}?`}
      action="Take out"
      act={async () => {
        if (backend.kind !== 'static') await takeOut(backend, id)
      }}
      onDone={async () => {
        onClose()
        await refresh('/backends')
      }}
      onClose={onClose}
    >
      <p>It gets no new requests from this group, and stays in the list of backends.</p>
    </Confirm>
  )
}

const isLast = (weights: Weights, id: string): boolean =>
  Object.entries(weights).every(([other, weight]) => other === id || weight === 0)

function columnsFor(backend: Backend, entriesFor: ((row: Row) => MenuEntry[]) | undefined): Column<Row>[] {
  return [
    {
      title: 'Server',
      className: 'a1',
      isRowHead: true,
      cell: ({ id, server }) => (
        <span className="two">
          {backend.kind === 'static' ? backend.backend.address : <BackendLink id={id} />}
          {server?.description && backend.kind !== 'static' && <small className="mono">{server.address}</small>}
        </span>
      ),
    },
    {
      title: 'State',
      className: 'c1',
      width: '38%',
      cell: ({ server, response }) =>
        response ? (
          <span className="soft">Answers when no server is up</span>
        ) : (
          <StatusCell status={statusOf(server)} />
        ),
    },
    ...(backend.kind === 'weighted'
      ? [
          {
            title: 'Share',
            className: 'b1',
            cell: ({ id }: Row) => <Share weights={backend.backend.backends} id={id} />,
          },
        ]
      : backend.kind === 'failover'
        ? [
            {
              title: 'Order',
              className: 'b1',
              cell: ({ place }: Row) => (place === 0 ? 'First choice' : `Choice ${place + 1}`),
            },
          ]
        : []),
    ...(entriesFor
      ? [
          {
            title: 'Actions',
            titleHidden: true,
            className: 'menu-cell a2',
            width: '44px',
            cell: (row: Row) => (
              <MoreMenu label={`Actions for ${textOf(row)}`} groups={() => [{ entries: entriesFor(row) }]} />
            ),
          },
        ]
      : []),
  ]
}

const statusOf = (server: Server | undefined): Status | undefined => server?.status

/** Its share of the traffic while all servers are up. */
function Share({ weights, id }: { weights: Weights; id: string }) {
  const weight = weights[id] ?? 0
  if (weight === 0) return <Badge tone="warned">Drained</Badge>
  const sum = Object.values(weights).reduce((total, each) => total + each, 0)
  return (
    <span className="two">
      {percent.format(weight / sum)}
      <small>weight {weight}</small>
    </span>
  )
}
