# SPDX-License-Identifier: Apache-2.0
# What truth.erl does, in Elixir: functions are named as Elixir's stack traces have them (Exception.format_mfa, without quotes), those of Erlang's
# modules as Erlang's.
#
# elixirc truth.ex; erl -noshell -pa DIRECTORY -pa ELIXIR/ebin -run Elixir.Truth main SECONDS LOG: SECONDS of CPU time. Runs on Elixir 1.14 and later.
defprotocol Truth.Weight do
  def weigh(thing)
end

defmodule Truth.Box do
  defstruct [:burn]

  defimpl Truth.Weight do
    def weigh(box), do: {box.burn.(), 1}
  end

  defimpl Enumerable do
    def count(_), do: {:error, __MODULE__}
    def member?(_, _), do: {:error, __MODULE__}
    def slice(_), do: {:error, __MODULE__}
    def reduce(_, {:halt, result}, _), do: {:halted, result}

    def reduce(box, {:cont, result}, function) do
      {:cont, result} = function.(box.burn.(), result)
      {:done, result}
    end
  end
end

defmodule Truth.Server do
  use GenServer

  @impl true
  def init({variant, log}) do
    Truth.begin(variant, log)
    {:ok, 0}
  end

  @impl true
  def handle_call(:burn, _from, count) do
    Truth.burn(:first, 8)
    {:reply, count, count + 1}
  end

  @impl true
  def handle_cast(:burn, count) do
    Truth.burn(:first, 4)
    {:noreply, count}
  end
end

defmodule Truth do
  def main([seconds, path]) do
    :erlang.system_flag(:backtrace_depth, 4096)
    {:ok, log} = :file.open(path, [:write, {:encoding, :utf8}])
    :ets.new(:known, [:named_table, :public])
    variants = [:plain, :pipes, :closures, :captures, :comprehensions, :exceptions, :streams, :protocols, :structs, :tasks, :servers, :guards?, :grüße]
    repeat(:erlang.list_to_integer(seconds) * 1000, variants, log)
    :file.close(log)
    :erlang.halt(0)
  end

  defp repeat(until, variants, log) do
    for variant <- variants do
      begin(variant, log)
      apply(__MODULE__, variant, [])
    end

    case :erlang.statistics(:runtime) do
      {used, _} when used < until -> repeat(until, variants, log)
      _ -> :ok
    end
  end

  def begin(variant, log) do
    Process.put(:variant, variant)
    Process.put(:log, log)
  end

  # ---- what is written down ----

  defp note do
    {:current_stacktrace, all} = Process.info(self(), :current_stacktrace)
    [_ | stack] = Enum.drop_while(all, fn {_, function, _, _} -> function != :note end)
    variant = Process.get(:variant)

    if :ets.insert_new(:known, {{variant, stack}}) do
      frames = stack |> Enum.reverse() |> Enum.map(&frame/1) |> Enum.intersperse(",")
      :io.format(Process.get(:log), "{\"variant\":\"~ts\",\"stack\":[~ts]}~n", [Atom.to_string(variant), frames])
    end
  end

  defp frame({module, function, arity, location}) do
    name =
      case Atom.to_string(module) do
        "Elixir." <> _ -> Exception.format_mfa(module, function, arity) |> String.replace("\"", "")
        erlang -> "#{erlang}:#{function}/#{arity}"
      end

    ["[\"", name, "\",\"", Keyword.get(location, :file, ""), "\",", Integer.to_string(Keyword.get(location, :line, 0)), "]"]
  end

  # ---- where the time goes by: as truth.erl's burn/2, note() on the first line ----

  def burn(:first, milliseconds) do note()
    burn(milliseconds * 400, 1)
  end
  def burn(left, n) when rem(n, 1024) != 0, do: burn(left, n + 1)
  def burn(left, n) do
    if left > 0 and is_integer(:erlang.monotonic_time()), do: burn(left - 1, rem(n + 1, 65536)), else: n
  end

  # ---- ways to be called ----

  def plain, do: [hot(), cold()]
  def hot, do: [burn(:first, 18)]
  def cold, do: [burn(:first, 2)]

  def pipes do
    [1, 2]
    |> Enum.map(fn x -> {burn(:first, 2), x} end)
    |> Enum.filter(fn {_, x} -> {burn(:first, 2), x > 1} |> elem(1) end)
    |> Enum.reduce(0, fn {_, x}, sum -> x + sum + 0 * burn(:first, 2) end)
    |> then(fn sum -> {burn(:first, 2), sum} end)
    |> Tuple.to_list()
  end

  def closures do
    more = length(Process.get())
    twice = fn function -> [function.(), function.()] end
    twice.(fn -> {burn(:first, 4), more} end)
    nested = fn -> Enum.map([1, 2], fn x -> {burn(:first, 2), x, more} end) end
    [nested.()]
  end

  def captures do
    [Enum.map([1, 2], &[burn(:first, &1)]), Enum.map([1, 2], &work/1), Enum.sort([3, 1, 2], &by_burning/2)]
  end

  defp work(milliseconds), do: [burn(:first, milliseconds)]
  defp by_burning(a, b), do: {burn(:first, 1), a < b} |> elem(1)

  def comprehensions do
    list = for x <- [1, 2, 3], x > 1, do: {burn(:first, 2), x}
    map = for x <- [1, 2], into: %{}, do: {x, burn(:first, 2)}
    sum = for x <- [1, 2], reduce: 0, do: (sum -> sum + x + 0 * burn(:first, 2))
    [list, map, sum]
  end

  def exceptions do
    try do
      {burn(:first, 2), raise(ArgumentError, "wrong")}
    rescue
      error in ArgumentError -> {burn(:first, 2), error}
    after
      burn(:first, 2)
    end

    with {:ok, value} <- {burn(:first, 2), {:ok, 1}} |> elem(1), do: {burn(:first, 2), value}
  end

  def streams do
    1..3 |> Stream.map(fn x -> {burn(:first, 2), x} end) |> Stream.reject(fn {_, x} -> x == 2 end) |> Enum.to_list()
    1 |> Stream.iterate(fn x -> x + 1 + 0 * burn(:first, 2) end) |> Enum.take(3)
  end

  def protocols do
    box = %Truth.Box{burn: fn -> {burn(:first, 3), 1} |> elem(1) end}
    [Truth.Weight.weigh(box), Enum.map(box, fn x -> {burn(:first, 2), x} end)]
  end

  def structs, do: %{%Truth.Box{} | burn: burn(:first, 5)}

  # Of other processes: a task's are those of Elixir below it.
  def tasks do
    {variant, log} = {Process.get(:variant), Process.get(:log)}

    run = fn n ->
      begin(variant, log)
      {burn(:first, 3), n}
    end

    [Task.async(fn -> {run.(1), 1} end) |> Task.await(:infinity), Enum.to_list(Task.async_stream([1, 2], run, timeout: :infinity))]
  end

  def servers do
    {:ok, server} = GenServer.start_link(Truth.Server, {Process.get(:variant), Process.get(:log)})
    GenServer.call(server, :burn, :infinity)
    GenServer.cast(server, :burn)
    GenServer.call(server, :burn, :infinity)
    GenServer.stop(server)
  end

  def guards?, do: {burn(:first, 5), true} |> elem(1)

  def grüße, do: [δ(fn _ -> {burn(:first, 5), 1} end)]
  defp δ(function), do: {function.(1), 1}
end
