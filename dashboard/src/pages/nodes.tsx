import { PageHeader } from '../ui/page_header.tsx'
import { Nodes as NodeList } from './overview/nodes.tsx'

export function Nodes() {
  return (
    <>
      <PageHeader title="Nodes" summary="Every node enforces the state by itself and reports how far it is." />
      <NodeList />
    </>
  )
}
