import { useQuery } from '@tanstack/react-query'
import { useDeferredValue, useMemo, useState } from 'react'
import { useParams } from 'react-router'
import { isCut, queries } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { DataTable } from '../ui/data_table.tsx'
import { Skeleton } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { ProblemNote } from '../ui/problem.tsx'
import { Empty } from '../ui/states.tsx'
import { faultsIn, stateOf } from '../ui/status.tsx'
import { Toolbar } from '../ui/toolbar.tsx'
import { Unread } from '../ui/unread.ts'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { useUrlState } from '../ui/use_url_state.ts'
import { CreateEdge } from './edges/create.tsx'
import { HttpsDetail } from './edges/https.tsx'
import { edgeColumns, type ListedEdge, listed } from './edges/list.tsx'
import { PublishApplication } from './edges/publish.tsx'
import { TcpDetail } from './edges/tcp.tsx'

export function Edges() {
  const { id } = useParams()
  if (id?.startsWith('edgtcp_')) return <TcpDetail key={id} id={id} />
  if (id) return <HttpsDetail key={id} id={id} />
  return <EdgeList />
}

function EdgeList() {
  const tcp = useQuery(queries.tcpEdges())
  const https = useQuery(queries.httpsEdges())
  const [creating, setCreating] = useState<'tcp' | 'https' | 'publish'>()
  useOpenOnArrival((what) => setCreating(what === 'tcp' || what === 'publish' ? what : 'https'))
  const edges = useMemo(() => https.data && tcp.data && listed(https.data, tcp.data), [https.data, tcp.data])
  const failed = [https, tcp].find(({ isError }) => isError)
  return (
    <>
      <PageHeader title="Edges" summary={edges && !failed && sentenceOf(edges)}>
        <Button icon="plus" onPress={() => setCreating('tcp')}>
          Create TCP edge
        </Button>
        <Button icon="plus" onPress={() => setCreating('https')}>
          Create HTTPS edge
        </Button>
        <Button kind="primary" icon="plus" onPress={() => setCreating('publish')}>
          Publish an application
        </Button>
      </PageHeader>
      {failed && <ProblemNote error={failed.error} retry={() => failed.refetch()} />}
      {!edges && !failed && <Skeleton lines={6} />}
      {edges && (
        <Unread value={failed !== undefined}>
          <EdgeTable edges={edges} />
        </Unread>
      )}
      {creating === 'publish' && <PublishApplication onClose={() => setCreating(undefined)} />}
      {creating && creating !== 'publish' && <CreateEdge kind={creating} onClose={() => setCreating(undefined)} />}
    </>
  )
}

const count = new Intl.NumberFormat('en')

function sentenceOf(edges: readonly ListedEdge[]): string {
  if (edges.length === 0)
    return 'Edges receive traffic. TCP edges forward connections; HTTPS edges choose a route by path.'
  const total = edges.length === 1 ? '1 edge.' : `${count.format(edges.length)} edges.`
  if (isCut(edges)) return `The newest ${count.format(edges.length)} edges. The API lists all of them.`
  const faults = faultsIn(edges.map(({ status }) => status))
  return faults ? `${total} ${faults}.` : `${total} Traffic is flowing on all of them.`
}

type View = 'all' | 'https' | 'tcp' | 'open' | 'faulty'

const isOfView: Record<View, (edge: ListedEdge) => boolean> = {
  all: () => true,
  https: ({ kind }) => kind === 'https',
  tcp: ({ kind }) => kind === 'tcp',
  open: ({ isOpen }) => isOpen,
  faulty: ({ status }) => stateOf(status) !== 'up',
}

function EdgeTable({ edges }: { edges: readonly ListedEdge[] }) {
  const [search, setSearch] = useState('')
  const [view, setView] = useUrlState<View>('show', 'all')
  const typed = useDeferredValue(search)
  const found = useMemo(() => {
    const wanted = typed.trim().toLowerCase()
    return edges.filter(isOfView[view] ?? isOfView.all).filter(({ text }) => text.includes(wanted))
  }, [edges, typed, view])
  if (edges.length === 0)
    return (
      <div className="frame">
        <Empty title="No edges yet">Create a backend, then an edge with a route to it.</Empty>
      </div>
    )
  const chip = (value: View, label: string) => ({ value, label, count: edges.filter(isOfView[value]).length })
  return (
    <>
      <Toolbar
        search={search}
        onSearch={setSearch}
        placeholder="Name, host name, path or ID"
        chosen={view}
        onChoose={setView}
        chips={[
          chip('all', 'All edges'),
          chip('https', 'HTTPS'),
          chip('tcp', 'TCP'),
          chip('open', 'Open to every address'),
          chip('faulty', 'Not up'),
        ]}
      />
      {found.length === 0 ? (
        <div className="frame">
          <Empty title="No matching edges" />
        </div>
      ) : (
        <DataTable label="Edges" rows={found} keyOf={({ id }) => id} columns={edgeColumns} isTwoLine />
      )}
    </>
  )
}
