# SPDX-License-Identifier: Apache-2.0
# A shop of one file in Sinatra, on Puma: ruby sinatra_shop.rb -s puma -p PORT
require 'date'
require 'json'
require 'sinatra'

Order = Struct.new(:customer, :total, :placed) do
  def discounted
    total * (total > 300 ? 0.9 : 1)
  end
end
ORDERS = Array.new(600) { |i| Order.new("customer #{i % 37}", i * 1.25, Date.new(2026, 1, 1) + i % 300) }

template :orders do
  '<table><% @orders.each do |order| %><tr><td><%= order.customer.capitalize %></td><td><%= format("%.2f", order.total) %></td>' \
    '<td><%= order.placed.strftime("%F") %></td></tr><% end %></table>'
end

def chosen
  ORDERS.select { |order| order.total > 100 }.sort_by(&:customer)
end

get '/orders' do
  @orders = chosen
  erb :orders
end

get '/report' do
  sums = Hash.new(0)
  ORDERS.each { |order| sums[order.customer] += order.discounted }
  content_type :json
  sums.to_json
end
