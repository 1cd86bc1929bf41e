// Runs a list of transfers through SimGrid, as cheaply as its C++ interface allows: peer_simgrid.py compiles it, netsim.testing.peer writes its case.
//
//   driver CASE OUT Full|Lazy [SimGrid flags]
//
// CASE: int64 counts (links, hosts, routes, hops, transfers, edges); then capacity float64 (links); route_src, route_dst, route_ptr,
// route_link int64; src, dst int64, start, size float64 (transfers); edge_from, edge_to int64. OUT: finish float64 (transfers).
// Prints the CPU seconds of making and running the transfers, without those of the platform.
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg = simgrid::s4u;

template <class T> static std::vector<T> read(FILE* file, std::int64_t n)
{
  std::vector<T> values(static_cast<std::size_t>(n));
  if (std::fread(values.data(), sizeof(T), values.size(), file) != values.size()) {
    std::fprintf(stderr, "driver: case file is too short\n");
    std::exit(2);
  }
  return values;
}

static double cpu_s()
{
  rusage use;
  getrusage(RUSAGE_SELF, &use);
  return use.ru_utime.tv_sec + use.ru_stime.tv_sec + 1e-6 * (use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

int main(int argc, char** argv)
{
  sg::Engine engine(&argc, argv);
  FILE* in = argc > 2 ? std::fopen(argv[1], "rb") : nullptr;
  if (in == nullptr) {
    std::fprintf(stderr, "usage: driver CASE OUT [SimGrid flags]\n");
    return 2;
  }
  const auto count = read<std::int64_t>(in, 6);
  const auto capacity = read<double>(in, count[0]);
  const auto route_src = read<std::int64_t>(in, count[2]), route_dst = read<std::int64_t>(in, count[2]);
  const auto route_ptr = read<std::int64_t>(in, count[2] + 1), route_link = read<std::int64_t>(in, count[3]);
  const auto src = read<std::int64_t>(in, count[4]), dst = read<std::int64_t>(in, count[4]);
  const auto start = read<double>(in, count[4]), size = read<double>(in, count[4]);
  const auto from = read<std::int64_t>(in, count[5]), to = read<std::int64_t>(in, count[5]);
  std::fclose(in);

  auto* zone = engine.get_netzone_root()->add_netzone_full("zone");
  std::vector<sg::Host*> host;
  for (std::int64_t i = 0; i < count[1]; i++)
    host.push_back(zone->add_host("h" + std::to_string(i), 1e9));
  std::vector<sg::Link*> link;
  for (std::int64_t i = 0; i < count[0]; i++)
    link.push_back(zone->add_link("l" + std::to_string(i), capacity[i])->seal());
  for (std::int64_t r = 0; r < count[2]; r++) {
    std::vector<sg::LinkInRoute> path;
    for (std::int64_t h = route_ptr[r]; h < route_ptr[r + 1]; h++)
      path.emplace_back(link[route_link[h]]);
    zone->add_route(host[route_src[r]], host[route_dst[r]], path, false);
  }
  zone->seal();

  const double begin = cpu_s();
  const std::size_t n = src.size();
  std::vector<sg::CommPtr> comm(n);
  const auto make = [&](std::size_t i) {
    comm[i] = sg::Comm::sendto_init(host[src[i]], host[dst[i]]);
    comm[i]->set_payload_size(static_cast<std::uint64_t>(size[i]));
  };
  if (from.empty()) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return start[a] < start[b]; });
    for (const std::size_t i : order) {
      if (start[i] > sg::Engine::get_clock())
        engine.run_until(start[i]);
      make(i);
      comm[i]->start();
    }
  } else {
    for (std::size_t i = 0; i < n; i++)
      make(i);
    for (std::size_t e = 0; e < from.size(); e++)
      comm[from[e]]->add_successor(comm[to[e]]);
    for (std::size_t i = 0; i < n; i++)
      comm[i]->start();
  }
  engine.run();
  std::vector<double> finish(n);
  for (std::size_t i = 0; i < n; i++)
    finish[i] = comm[i]->get_finish_time();
  const double cpu = cpu_s() - begin;

  FILE* out = std::fopen(argv[2], "wb");
  if (out == nullptr || std::fwrite(finish.data(), sizeof(double), n, out) != n || std::fclose(out) != 0)
    return 1;
  std::printf("%.6f\n", cpu);
  std::fflush(stdout);
  std::quick_exit(0);
}
